"""What each finding means: why it matters, a file that has it and one that has not. The pages in docs are made of this."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

__all__ = ["EXPLANATIONS", "Explanation"]


@frozen
class Explanation:
    """Why a finding matters and how to repair it; `bad` is a rules file that has it, `good` one that has not.

    `other` is a second file for findings that need two: another backend, or an older version (`baseline`).
    """

    why: str
    repair: str
    bad: str
    good: str
    other: str = ""
    baseline: bool = False


def _file(body: str) -> str:
    return f'backend "AcmeNpu" language 1\n\n{body.strip()}\n'


_RELU = "rule relu { match y = aten.relu.default(x)  require x.rank == 4 }"

_ROWS: dict[str, Explanation] = {
    "A001": Explanation(
        "The text can't be read, so nothing in the file was looked at beyond this place. Reading goes on at the next "
        "statement, so that one run shows every syntax error.",
        "Write what the message expects; `apportion fmt` shows how a file is laid out.",
        _file("rule relu { match y = aten.relu.default(x) require x.rank = 4 }"), _file(_RELU),
    ),
    "A002": Explanation(
        "No library that is loaded registers this op and no `declare` describes it, so the rule could never match. "
        "An op of a library that may be absent is declared with its schema.",
        "Use one of the near names, import the library with `--import`, or declare the op.",
        _file("rule relu { match y = aten.reluu.default(x) }"), _file(_RELU),
    ),
    "A003": Explanation(
        "The schema of the op has no such argument, or it is given twice; the pattern could never match.",
        "Use the names of the schema.",
        _file("rule conv { match y = aten.convolution.default(x, kernel: w) }"),
        _file("rule conv { match y = aten.convolution.default(x, weight: w)  require w is constant }"),
    ),
    "A004": Explanation(
        "Everything is typed when a file is loaded: comparing a dtype with a number would never be true.",
        "Compare things of one type.",
        _file("rule relu { match y = aten.relu.default(x)  require x.dtype == 4 }"),
        _file("rule relu { match y = aten.relu.default(x)  require x.dtype == float32 }"),
    ),
    "A005": Explanation(
        "The name means nothing here: it is no variable, `let`, op set, dtype, option, attribute, kind or function.",
        "Declare it, or use one of the near names.",
        _file("rule relu { match y = aten.relu.default(x)  require x.rnak == 4 }"), _file(_RELU),
    ),
    "A006": Explanation(
        "`take` and `mark` speak of values that the pattern binds; this name is not bound there.",
        "Bind the name in `match`.",
        _file("rule conv { match y = aten.convolution.default(x, w)  take weight }"),
        _file("rule conv { match y = aten.convolution.default(x, w)  require w is constant  take w }"),
    ),
    "A007": Explanation(
        "The parts of a pattern must share values: two ops that have nothing to do with each other are no match.",
        "Connect them by a name that both use, or write two rules.",
        _file("rule two { match { y = aten.relu.default(x)  z = aten.exp.default(u) } }"),
        _file("rule two { match { y = aten.relu.default(x)  z = aten.exp.default(y) } }"),
    ),
    "A008": Explanation(
        "Declarations or files refer to each other in a circle, so none of them has a meaning.",
        "Break the circle.",
        _file("let low = high\nlet high = low\nrule relu { match y = aten.relu.default(x)  require x.rank == low }"),
        _file("let low = 4\nrule relu { match y = aten.relu.default(x)  require x.rank == low }"),
    ),
    "A009": Explanation(
        "Two declarations have one name, and it would be a matter of luck which is meant.",
        "Rename one of them.",
        _file("let wide = 4\nlet wide = 5\nrule relu { match y = aten.relu.default(x)  require x.rank == wide }"),
        _file("let wide = 4\nrule relu { match y = aten.relu.default(x)  require x.rank == wide }"),
    ),
    "A010": Explanation(
        "A backend's file starts with `backend`, has at most one `partition`, and each rule has one `match`.",
        "Put the statement where it belongs.",
        _file("rule relu { require 1 == 1 }"), _file(_RELU),
    ),
    "A011": Explanation(
        "There are limits on depth and size, so that loading any text takes bounded time and memory.",
        "Use smaller numbers, split the expression with `let`, or split the file.",
        _file("rule relu { match y = aten.relu.default(x)  require x.rank < " + "9" * 300 + " }"), _file(_RELU),
    ),
    "A101": Explanation(
        "Two rules of one backend can claim the same node with equally many nodes, neither lies inside the other, and no "
        "`over` orders them. Then only the position in the file decides; moving a rule changes what the compiler is told. "
        "The witness is a call that PyTorch accepts and both rules claim.",
        "Write `over`, or narrow one of the rules.",
        _file('rule conv2d {\n  match y = aten.convolution.default(x, w, b)\n  require x.rank == 4\n  emit precision = "half"\n}\n'
              'rule conv_any {\n  match y = aten.convolution.default(x, w, b)\n  require x.dtype == float16\n'
              '  emit precision = "full"\n}'),
        _file('rule conv2d over conv_any {\n  match y = aten.convolution.default(x, w, b)\n  require x.rank == 4\n'
              '  emit precision = "half"\n}\nrule conv_any {\n  match y = aten.convolution.default(x, w, b)\n'
              '  require x.dtype == float16\n  emit precision = "full"\n}'),
    ),
    "A102": Explanation(
        "Two rules claim exactly the same nodes; the one further down is never chosen and will be forgotten when the first "
        "is changed.",
        "Remove one of them.",
        _file(f"{_RELU}\nrule relu_again {{ match y = aten.relu.default(a)  require a.rank in 4..4 }}"), _file(_RELU),
    ),
    "A103": Explanation(
        "One rule lies inside another, or takes a node along that another claims alone; size, `over` or position settles "
        "it. That is how rules are meant to be written; the note shows who goes first.",
        "Nothing, if it is meant.",
        _file(f"{_RELU}\nrule relu_any {{ match y = aten.relu.default(x) }}"),
        _file(f"{_RELU}\nrule relu_rest {{ match y = aten.relu.default(x)  require x.rank != 4 }}"),
    ),
    "A104": Explanation(
        "All that this rule claims goes to another rule that comes before it, so it is never chosen.",
        "Move the narrower rule up, write `over`, or remove it.",
        _file(f"rule relu_any {{ match y = aten.relu.default(x) }}\n{_RELU}"),
        _file("rule relu over relu_any { match y = aten.relu.default(x)  require x.rank == 4 }\n"
              "rule relu_any { match y = aten.relu.default(x) }"),
    ),
    "A105": Explanation(
        "No single rule hides this one, but several before it together take all that it claims.",
        "Remove it, or narrow the others.",
        _file("rule low { match y = aten.relu.default(x)  require x.rank <= 3 }\n"
              "rule high { match y = aten.relu.default(x)  require x.rank >= 3 }\n"
              "rule middle { match y = aten.relu.default(x)  require x.rank in 2..5 }"),
        _file("rule low { match y = aten.relu.default(x)  require x.rank <= 2 }\n"
              "rule middle { match y = aten.relu.default(x)  require x.rank == 4 }"),
    ),
    "A106": Explanation(
        "Two fusions each want a node of the other's: which chain comes out fused depends on where matching starts.",
        "Order them with `over`, or write one pattern for the whole chain.",
        _file("rule first { match y = aten.relu.default(aten.exp.default(x)) }\n"
              "rule second { match y = aten.neg.default(aten.relu.default(x)) }"),
        _file("rule first over second { match y = aten.relu.default(aten.exp.default(x)) }\n"
              "rule second { match y = aten.neg.default(aten.relu.default(x)) }"),
    ),
    "A107": Explanation(
        "Two backends can claim the same node; the order in which they are asked decides. The note shows who wins under "
        "the order that was given.",
        "Nothing, if the order is meant; it is the table of what backends contend for.",
        _file(_RELU), 'backend "AcmeGpu" language 1\n\nrule exp { match y = aten.exp.default(x) }\n',
        other='backend "AcmeDsp" language 1\n\nrule relu { match y = aten.relu.default(x) }\n',
    ),
    "A108": Explanation(
        "`over` orders two rules that never claim the same node: it says nothing, and hides that one of them changed.",
        "Remove the name from the `over` list.",
        _file("rule relu over exp { match y = aten.relu.default(x) }\nrule exp { match y = aten.exp.default(x) }"),
        _file("rule relu { match y = aten.relu.default(x) }\nrule exp { match y = aten.exp.default(x) }"),
    ),
    "A109": Explanation(
        "A rule comes to be over itself, so there is no order.",
        "Break the circle.",
        _file("rule a over b { match y = aten.relu.default(x)  require x.rank == 3 }\n"
              "rule b over a { match y = aten.relu.default(x) }"),
        _file("rule a over b { match y = aten.relu.default(x)  require x.rank == 3 }\n"
              "rule b { match y = aten.relu.default(x) }"),
    ),
    "A110": Explanation(
        "Two rules claim the same nodes with different compile specs, and only their position decides which the compiler "
        "gets.",
        "Say with `over` which is meant, or make the rules disjoint.",
        _file('rule fast { match y = aten.relu.default(x)  require x.rank == 4  emit mode = "fast" }\n'
              'rule slow { match y = aten.relu.default(x)  emit mode = "slow" }'),
        _file('rule fast over slow { match y = aten.relu.default(x)  require x.rank == 4  emit mode = "fast" }\n'
              'rule slow { match y = aten.relu.default(x)  emit mode = "slow" }'),
    ),
    "A201": Explanation(
        "No call satisfies all requirements, so the rule never fires. The labels are a smallest set of requirements that "
        "contradict each other.",
        "See which of them is meant.",
        _file("rule relu {\n  match y = aten.relu.default(x)\n  require x.dtype == float32\n  require x.rank == 2\n"
              "  require x.shape[2] == 8\n}"),
        _file("rule relu {\n  match y = aten.relu.default(x)\n  require x.rank == 3\n  require x.shape[2] == 8\n}"),
    ),
    "A202": Explanation(
        "The requirements of a contract or an invariant contradict each other, or every match of a rule breaks an "
        "invariant: what uses them never holds.",
        "Repair the requirements. A deny list says openly `require false because …`.",
        _file("contract small(n) { require n.rank > 4  require n.rank < 3 }\n"
              "rule relu { match y = aten.relu.default(x)  require small(x) }"),
        _file("contract small(n) { require n.rank > 1  require n.rank < 4 }\n"
              "rule relu { match y = aten.relu.default(x)  require small(x) }"),
    ),
    "A203": Explanation(
        "The requirement follows from the others; it never makes a difference, and its sentence is never shown.",
        "Remove it (`--fix` does), or strengthen it.",
        _file("rule relu { match y = aten.relu.default(x)  require x.rank == 4  require x.rank > 2 }"), _file(_RELU),
    ),
    "A204": Explanation(
        "The condition is true of every call that the pattern fits.",
        "Remove it (`--fix` does), or say what was meant.",
        _file("rule conv { match y = aten.convolution.default(x, w, b)  require x.rank >= 3 }"),
        _file("rule conv { match y = aten.convolution.default(x, w, b)  require x.rank >= 4 }"),
    ),
    "A206": Explanation(
        "One side of an `or`, or one alternative of a pattern, can never hold beside the rest of the rule.",
        "Remove it, or relax what rules it out.",
        _file("rule relu {\n  match y = aten.relu.default(x)\n  require x.rank == 2 or x.rank == 4\n  require x.rank > 3\n}"),
        _file("rule relu {\n  match y = aten.relu.default(x)\n  require x.rank == 5 or x.rank == 4\n}"),
    ),
    "A207": Explanation(
        "`all` over a list that is always empty is true whatever its condition says.",
        "Look at the list that was meant, or remove the requirement (`--fix` does).",
        _file("rule relu {\n  match y = aten.relu.default(x)\n  require x.rank == 2\n"
              "  require all(d == 1 for d in x.shape[2:])\n}"),
        _file("rule relu {\n  match y = aten.relu.default(x)\n  require x.rank == 3\n"
              "  require all(d == 1 for d in x.shape[2:])\n}"),
    ),
    "A401": Explanation(
        "Nothing uses the declaration. A typing slip in a name often shows like this.",
        "Remove it (`--fix` does), or use it.",
        _file(f"let wide = 8\n{_RELU}"),
        _file("let wide = 4\nrule relu { match y = aten.relu.default(x)  require x.rank == wide }"),
    ),
    "A402": Explanation(
        "A comment `# lint: allow CODE because …` takes findings of a code out of the statement below it. This one has no "
        "reason, names no finding, or there is nothing to suppress any more.",
        "Remove it (`--fix` does), or give the reason.",
        _file(f"# lint: allow A104 because it was hidden once\n{_RELU}"), _file(_RELU),
    ),
    "A501": Explanation(
        "The file is written for another version of the language than this engine reads.",
        "Install a matching version, or write the file for the version that is there.",
        'backend "AcmeNpu" language 9\n\nrule relu { match y = aten.relu.default(x) }\n', _file(_RELU),
    ),
    "A502": Explanation(
        "A declared schema differs from the one that is registered: arguments were renamed or added, and rules that were "
        "checked against the text may match nothing.",
        "Bring the `declare` up to date.",
        _file('declare "aten::relu(Tensor input) -> Tensor"\nrule relu { match y = aten.relu.default(x)  require x.rank == 4 }'),
        _file('declare "aten::relu(Tensor self) -> Tensor"\nrule relu { match y = aten.relu.default(x)  require x.rank == 4 }'),
    ),
    "A503": Explanation(
        "Compared with the older version that `--baseline` names, the file claims more, or less. Each change comes with a "
        "call that shows it.",
        "Nothing, if the change is meant.",
        _file("rule relu { match y = aten.relu.default(x) }"), _file(_RELU), other=_file(_RELU), baseline=True,
    ),
    "A601": Explanation(
        "An example in the file states what is claimed or not, and that is not so; or PyTorch refuses the call.",
        "Repair the rule or the example.",
        _file("rule relu {\n  match y = aten.relu.default(x)\n  require x.rank == 4\n  accepts aten.relu.default(float32[2,2])\n}"),
        _file("rule relu {\n  match y = aten.relu.default(x)\n  require x.rank == 4\n"
              "  accepts aten.relu.default(float32[1,2,2,2])\n}"),
    ),
    "A701": Explanation(
        "Neither the pattern nor a requirement mentions an argument of the op, so every value of it is claimed. Off by "
        "default: `--select A701` turns it on.",
        "Require what the hardware can do, or name the argument with `_`.",
        _file("rule softmax { match y = aten._softmax.default(x, d)  require x.rank == 2 and d == 1 }"),
        _file("rule softmax { match y = aten._softmax.default(x, d, false)  require x.rank == 2 and d == 1 }"),
    ),
    "A901": Explanation(
        "Whether two rules overlap depends on what functions of the host program answer, of which nothing is known. It is "
        "neither an overlap nor disjoint, and is counted.",
        "Promise `disjoint P, Q` where that is true, or register the functions when linting (`--import`).",
        _file("extern fits_a(n)\nextern fits_b(n)\nrule a { match y = aten.relu.default(x)  require fits_a(y) }\n"
              "rule b { match y = aten.relu.default(x)  require fits_b(y) }"),
        _file("extern fits_a(n)\nextern fits_b(n)\ndisjoint fits_a, fits_b\n"
              "rule a { match y = aten.relu.default(x)  require fits_a(y) }\n"
              "rule b { match y = aten.relu.default(x)  require fits_b(y) }"),
    ),
    "A902": Explanation(
        "A condition is outside of what the linter decides, and none of the candidates that it drew was claimed by both "
        "rules. It is neither an overlap nor disjoint, and is counted.",
        "Write the condition over shapes, dtypes and arguments where that is possible, or order the rules with `over`.",
        _file("rule a { match y = aten.add.Tensor(x, w)  require w is constant and min_value(w) > 7 }\n"
              "rule b { match y = aten.add.Tensor(x, w)  require w is constant and max_value(w) < 9 }"),
        _file("rule a { match y = aten.add.Tensor(x, w)  require w is constant and w.rank == 1 }\n"
              "rule b { match y = aten.mul.Tensor(x, w)  require w is constant and max_value(w) < 9 }"),
    ),
    "A903": Explanation(
        "The search was given up after a bounded number of steps. It is neither an overlap nor disjoint, and is counted.",
        "Ask for what can be told from fewer cases, or split the rule.",
        _file("rule a {\n  match y = aten.relu.default(x)\n"
              "  require x.rank == 6 and count(d % 2 == 0 for d in x.shape) == 3 and count(d > 8 for d in x.shape) == 3\n}\n"
              "rule b { match y = aten.relu.default(x)  require count(d % 2 == 1 for d in x.shape) == 4 }"),
        _file("rule a { match y = aten.relu.default(x)  require x.rank == 6 and x.shape[0] % 2 == 0 and x.shape[0] > 8 }\n"
              "rule b { match y = aten.relu.default(x)  require x.shape[0] % 2 == 1 }"),
    ),
}

EXPLANATIONS: Mapping[str, Explanation] = _ROWS
"""The explanation of every finding by its code."""
