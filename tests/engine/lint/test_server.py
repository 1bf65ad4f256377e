"""The editor server, driven by a real client over standard input and output; every capability once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from apportion.engine.lint.highlight import textmate

ROOT = Path(__file__).resolve().parents[3]

TEXT = """backend "AcmeNpu" language 1

let wide = 4
let unused = 5

rule relu {
  match y = aten.relu.default(x)
  require x.rank == wide
}
rule conv { match y = aten.convolution.default(x, w)  require w is constant  require x.ran == 4 }
"""


def drive(uri: str, text: str, ask: Callable[[LanguageClient, list[Any]], Awaitable[Any]]) -> Any:
    """Start the server, open a document, wait for its findings, ask, stop."""

    async def session() -> Any:
        client = LanguageClient("test", "1")
        published: list[Any] = []
        arrived = asyncio.Event()

        @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def note(params: lsp.PublishDiagnosticsParams) -> None:
            published.append(params)
            arrived.set()

        await client.start_io(sys.executable, "-m", "apportion.engine", "lsp")
        await client.initialize_async(lsp.InitializeParams(capabilities=lsp.ClientCapabilities()))
        client.initialized(lsp.InitializedParams())
        item = lsp.TextDocumentItem(uri=uri, language_id="apportion-rules", version=1, text=text)
        client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        await asyncio.wait_for(arrived.wait(), 120)
        answer = await ask(client, published)
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()
        return answer

    return asyncio.run(session())


def at(text: str, needle: str, shift: int = 0) -> lsp.Position:
    offset = text.index(needle) + shift
    return lsp.Position(text.count("\n", 0, offset), offset - (text.rfind("\n", 0, offset) + 1))


def test_every_capability(tmp_path: Path) -> None:
    uri = (tmp_path / "acme.rules").as_uri()
    document = lsp.TextDocumentIdentifier(uri)

    async def ask(client: LanguageClient, published: list[Any]) -> dict[str, Any]:
        found: dict[str, Any] = {"codes": {d.code for d in published[-1].diagnostics}}
        fixed = TEXT.replace("x.ran ==", "x.rank ==")
        change = lsp.TextDocumentContentChangeWholeDocument(text=fixed)
        count = len(published)
        client.text_document_did_change(
            lsp.DidChangeTextDocumentParams(lsp.VersionedTextDocumentIdentifier(2, uri), [change])
        )
        while len(published) == count:
            await asyncio.sleep(0.05)
        found["after"] = {d.code for d in published[-1].diagnostics}
        for name, needle, shift in (("op", "aten.relu.d", 10), ("attribute", "x.rank", 2), ("kind", "w is c", 5)):
            answer = await client.text_document_completion_async(
                lsp.CompletionParams(document, at(fixed, needle, shift))
            )
            found[name] = {item.label for item in answer.items}
        argument = at(fixed, "convolution.default(x", len("convolution.default("))
        answer = await client.text_document_completion_async(lsp.CompletionParams(document, argument))
        found["argument"] = {item.label for item in answer.items}
        hover = await client.text_document_hover_async(lsp.HoverParams(document, at(fixed, "aten.relu.default", 6)))
        found["hover"] = hover.contents.value
        rule = await client.text_document_hover_async(lsp.HoverParams(document, at(fixed, "rule relu", 6)))
        found["claim"] = rule.contents.value
        target = await client.text_document_definition_async(lsp.DefinitionParams(document, at(fixed, "== wide", 4)))
        found["definition"] = target.range.start.line
        edits = await client.text_document_formatting_async(
            lsp.DocumentFormattingParams(document, lsp.FormattingOptions(2, True))
        )
        found["format"] = edits[0].new_text
        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(20, 0))
        actions = await client.text_document_code_action_async(
            lsp.CodeActionParams(document, whole, lsp.CodeActionContext([]))
        )
        found["actions"] = [action.title for action in actions]
        return found

    found = drive(uri, TEXT, ask)
    assert found["codes"] == {"A005"}
    assert "A401" in found["after"] and "A005" not in found["after"]
    assert "default" in found["op"]
    assert {"rank", "dtype"} <= found["attribute"]
    assert "constant" in found["kind"]
    assert "weight: " in found["argument"]
    assert "relu(Tensor self)" in found["hover"]
    assert "x.rank == wide" in found["claim"]
    assert found["definition"] == 2
    assert "  match y = aten.relu.default(x)\n" in found["format"]
    assert any("A401" in title for title in found["actions"])


@pytest.mark.parametrize("name", ["rules.tmLanguage.json"])
def test_the_grammar_for_editors_is_made_from_the_same_words(name: str) -> None:
    assert (ROOT / "editors" / "vscode" / "syntaxes" / name).read_text(encoding="utf-8") == textmate()
