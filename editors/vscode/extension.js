// Starts `apportion lsp` for .rules files.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const [command, ...args] = workspace.getConfiguration("apportion").get("command");
  client = new LanguageClient(
    "apportion",
    "Apportion",
    { command, args },
    { documentSelector: [{ language: "apportion-rules" }] },
  );
  return client.start();
};

exports.deactivate = () => client && client.stop();
