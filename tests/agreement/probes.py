"""Small calls on both sides of each condition of each of XNNPACK's configurations.

`PROBES` maps the target name of a configuration to its probes. What a probe should give is never stated here: the real
partitioner judges each one, under every set of options in `record.OPTION_SETS`.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

__all__ = ["PROBES", "Probe", "all_probes"]


@frozen
class Probe:
    """One small program: its configuration, its text and the values that it returns besides unused ones."""

    config: str
    text: str
    returned: tuple[str, ...] = ()


QD = "quantized_decomposed"


def dq(x: str, dtype: str = "int8", scale: float = 0.1) -> str:
    low, high = (0, 255) if dtype == "uint8" else (-128, 127)
    return f"{QD}.dequantize_per_tensor.default({x}, {scale}, 0, {low}, {high}, {dtype})"


def q(x: str, dtype: str = "int8", scale: float = 0.1) -> str:
    low, high = (0, 255) if dtype == "uint8" else (-128, 127)
    return f"{QD}.quantize_per_tensor.default({x}, {scale}, 0, {low}, {high}, {dtype})"


def dqt(x: str, scale: str = "constant float32[1]", zero: str = "constant int64[1]") -> str:
    return f"{QD}.dequantize_per_tensor.tensor({x}, {scale}, {zero}, -128, 127, int8)"


def qt(x: str, scale: str = "constant float32[1]", zero: str = "constant int64[1]") -> str:
    return f"{QD}.quantize_per_tensor.tensor({x}, {scale}, {zero}, -128, 127, int8)"


def dq2(x: str) -> str:
    bounds = "constant int64[1], constant int64[1]"
    return f"{QD}.dequantize_per_tensor.tensor2({x}, constant float32[1], constant int64[1], {bounds}, int8)"


def q2(x: str) -> str:
    bounds = "constant int64[1], constant int64[1]"
    return f"{QD}.quantize_per_tensor.tensor2({x}, constant float32[1], constant int64[1], {bounds}, int8)"


def dqc(x: str, channels: int, axis: int = 0) -> str:
    scales = f"constant float32[{channels}], constant int64[{channels}]"
    return f"{QD}.dequantize_per_channel.default({x}, {scales}, {axis}, -127, 127, int8)"


def qc(x: str, channels: int, axis: int = 0) -> str:
    scales = f"constant float32[{channels}], constant int64[{channels}]"
    return f"{QD}.quantize_per_channel.default({x}, {scales}, {axis}, -127, 127, int8)"


def dqg(x: str, rows: int, groups: int, size: int) -> str:
    scales = f"constant float32[{rows},{groups}], constant int32[{rows},{groups}]"
    return f"{QD}.dequantize_per_channel_group.default({x}, {scales}, -8, 7, int8, {size}, float32)"


def dqa(x: str, block: str, scale: str, zero: str = "none") -> str:
    return f"torchao.dequantize_affine.default({x}, {block}, {scale}, {zero}, int8, -128, 127)"


def qa(x: str, block: str, scale: str, zero: str) -> str:
    return f"torchao.quantize_affine.default({x}, {block}, {scale}, {zero}, int8, -128, 127)"


def choose(x: str, variant: str = "tensor") -> str:
    if variant == "per_token":
        return f"{QD}.choose_qparams_per_token_asymmetric.default({x}, int8)"
    if variant == "plain_token":
        return f"{QD}.choose_qparams_per_token.default({x}, int8)"
    if variant == "symmetric":
        return f"{QD}.choose_qparams_symmetric.tensor({x}, -128, 127, 0.00001, int8)"
    return f"{QD}.choose_qparams.tensor({x}, -128, 127, 0.00001, int8)"


def chain(call: str, *inputs: str, after: str = "") -> str:
    """`call` over dequantized `inputs` (it names them a, b, …), quantized again."""
    steps = [f"{name} = {dq(value)}" for name, value in zip("abc", inputs, strict=False)]
    steps.append(f"y = {call}")
    last = "y"
    if after:
        steps.append(f"z = {after}(y)")
        last = "z"
    return "{ " + "  ".join([*steps, f"r = {q(last)}"]) + " }"


def static(
    product: str,
    x: str,
    weight: str,
    *,
    act: str = "",
    quantized: bool = True,
    pad: str = "",
    before: str = "",
    extra: str = "",
) -> str:
    """A statically quantized product: `product` speaks of `d` (activation) and `v` (weight)."""
    steps = [before, f"d = {x}"]
    if pad:
        steps.append(f"p = {pad}")
    steps += [f"v = {weight}", f"y = {product}"]
    last = "y"
    if act:
        steps.append(f"z = {act}(y)")
        last = "z"
    if quantized:
        steps.append(f"r = {q(last)}")
    return "{ " + "  ".join(s for s in [*steps, extra] if s) + " }"


def dynamic(product: str, x: str, weight: str, *, variant: str = "tensor", after: str = "", between: str = "") -> str:
    """A dynamically quantized product: `product` speaks of `d` and `v`."""
    if variant.startswith("affine"):
        block = variant.removeprefix("affine") or "[1, 8]"
        steps = [
            f"g = aten.relu.default({x})",
            f'c = torchao.choose_qparams_affine.default(g, "ASYMMETRIC", {block}, int8, -128, 127)',
            f"q = {qa('g', block, 'c[0]', 'c[1]')}",
            f"d = {dqa('q', block, 'c[0]', 'c[1]')}",
        ]
    elif variant in ("per_token", "plain_token"):
        steps = [
            f"g = aten.relu.default({x})",
            f"c = {choose('g', variant)}",
            f"q = {QD}.quantize_per_token.default(g, c[0], c[1], -128, 127, int8)",
            f"d = {QD}.dequantize_per_token.default(q, c[0], c[1], -128, 127, int8, float32)",
        ]
    else:
        steps = [
            f"g = aten.relu.default({x})",
            f"c = {choose('g', variant)}",
            f"q = {qt('g', 'c[0]', 'c[1]')}",
            f"d = {dqt('q', 'c[0]', 'c[1]')}",
        ]
    return "{ " + "  ".join([*steps, between, f"v = {weight}", f"y = {product}", after]) + " }"


def common(call: str, *, rank: int = 4, unbacked: bool = True) -> list[str]:
    """Both sides of what is asked of every op, for a call that takes one tensor at `{}`. The fake kernels of a few ops
    refuse a size that only the run gives."""
    good = ",".join(["2"] * rank)
    varying = call.format("float32[" + ",".join(["u"] + ["2"] * (rank - 1)) + "]")
    return [
        *([varying] if unbacked else []),
        call.format(f"float32[{good}]"),
        call.format(f"float16[{good}]"),
        call.format(f"bfloat16[{good}]"),
        call.format(f"float64[{good}]"),
        call.format("float32[" + ",".join(["2"] * (rank - 1) + ["s"]) + "]"),
        call.format("float32[" + ",".join(["0"] + ["2"] * (rank - 1)) + "]"),
        call.format(f"constant float32[{good}]"),
    ]


def quantizable(call: str, x: str, *, extra: str = "") -> list[str]:
    """Chains around a call with one input `a`."""
    return [
        chain(call, x),
        chain(call, x, after="aten.relu.default"),
        "{ " + f"a = {dq(x.replace('int8', 'uint8'), 'uint8')}  y = {call}  r = {q('y', 'uint8')}" + " }",
        "{ " + f"a = {dqt(x)}  y = {call}  r = {qt('y')}" + " }",
        "{ " + f"a = {dq2(x)}  y = {call}  r = {q('y')}" + " }",
        "{ " + f"a = {dqt(x)}  y = {call}  r = {q2('y')}" + " }",
        "{ " + f"a = {dqt(x)}  y = {call}" + " }",
        "{ " + f"a = {dqt(x)}  y = {call}  r = {qt('y')}  k = aten.abs.default(y)" + " }",
        "{ " + f"a = {dqt(x)}  y = {call}  r = {qt('y')}  k = aten.abs.default(a)" + " }",
        "{ " + f"a = {dqa(x, block_of(x), 'constant float32[1]')}  y = {call}  r = {q('y')}" + " }",
    ]


def block_of(x: str) -> str:
    """The shape of an example tensor, as a list: an affine block that covers all of it."""
    return x[x.index("[") :].replace(",", ", ")


UNARY = {
    "abs.default": (), "ceil.default": (), "cos.default": (), "exp.default": (), "floor.default": (),
    "gelu.default": (), "hardswish.default": (), "leaky_relu.default": (), "log.default": (), "neg.default": (),
    "rsqrt.default": (), "sigmoid.default": (), "sin.default": (), "sqrt.default": (), "tanh.default": (),
}  # fmt: skip

BINARY = ("maximum.default", "minimum.default", "div.Tensor", "mul.Tensor", "add.Tensor", "sub.Tensor")

F4 = "float32[1,3,8,8]"
I4 = "int8[1,3,8,8]"
IMAGE = "float32[1,4,8,8]"
QIMAGE = "int8[1,4,8,8]"


def _binary(op: str) -> list[str]:
    aten = f"aten.{op}"
    probes = [
        f"{aten}(float32[2,3], float32[2,3])",
        f"{aten}(float32[2,3], float32[3])",
        f"{aten}(float32[2,3], constant float32[2,3])",
        f"{aten}(float32[2,3], constant float32[])",
        f"{aten}(float32[2,3], float16[2,3])",
        f"{aten}(float16[2,3], float16[2,3])",
        f"{aten}(float32[2,3], int64[2,3])",
        f"{aten}(int64[2,3], int64[2,3])",
        f"{aten}(bfloat16[2,3], bfloat16[2,3])",
        f"{aten}(float32[2,0], float32[2,0])",
        f"{aten}(float32[2,s], float32[2,s])",
        f"{aten}(float32[2,u], float32[2,u])",
        f"{aten}(float64[2,3], float64[2,3])",
        f"{{ x = aten.relu.default(float32[2,3])  y = {aten}(x, x) }}",
        f"{{ x = aten.erf.default(float32[2,3])  y = {aten}(x, x) }}",
    ]
    if op in ("mul.Tensor", "add.Tensor", "sub.Tensor"):
        probes += [
            chain(f"{aten}(a, b)", "int8[2,3]", "int8[2,3]"),
            chain(f"{aten}(a, b)", "int8[2,3]", "int8[2,3]", after="aten.relu.default"),
            chain(f"{aten}(a, b)", "int8[2,3]", "int8[2,3]", after="aten.hardtanh.default"),
            "{ " + f"a = {dqt('int8[2,3]')}  b = {dqt('int8[2,3]')}  y = {aten}(a, b)  r = {qt('y')}" + " }",
            "{ "
            + f"a = {dqt('int8[2,3]')}  b = {dqt('int8[2,3]')}  y = {aten}(a, b)  z = aten.relu.default(y)"
            + f"  r = {qt('z')}"
            + " }",
            "{ "
            + f"a = {dqt('int8[2,3]')}  b = {dqt('int8[2,3]')}  y = {aten}(a, b)  z = aten.relu.default(y)"
            + f"  r = {qt('z')}  k = aten.abs.default(z)"
            + " }",
            "{ " + f"a = {dqt('int8[2,3]')}  y = {aten}(a, float32[2,3])  r = {qt('y')}" + " }",
            "{ " + f"a = {dqt('int8[2,3]')}  y = {aten}(a, constant float32[2,3])  r = {qt('y')}" + " }",
            "{ " + f"a = {dqt('int8[2,3]')}  y = {aten}(a, a)  r = {qt('y')}" + " }",
            "{ " + f"a = {dqt('int8[2,3]')}  y = {aten}(a, a)  z = aten.relu.default(y)  r = {qt('z')}" + " }",
            "{ "
            + f"a = {dqt('int8[2,3]')}  b = {dqt('int8[2,3]')}  y = {aten}(a, b)  z = aten.hardtanh.default(y)"
            + f"  r = {qt('z')}"
            + " }",
            "{ "
            + f"a = {dqc('int8[2,3]', 2)}  b = {dqt('int8[2,3]')}  y = {aten}(a, b)  r = {qc('y', 2)}"
            + " }",
        ]
    if op in ("add.Tensor", "sub.Tensor"):
        probes += [
            f"{aten}(float32[2,3], float32[2,3], alpha: 2)",
            f"{aten}(float32[2,3], float32[2,3], alpha: 1)",
            f"{aten}(float32[2,3], float32[2,3], alpha: 1.0)",
            f"{aten}(float32[2,3], float32[2,3], alpha: -1)",
            f"{aten}(float32[2,3], float32[2,3], alpha: 0)",
        ]
    return probes


def _linear() -> list[str]:
    y = "aten.linear.default(d, v, constant float32[4])"
    bare = "aten.linear.default(d, v)"
    x, w = dq("int8[2,8]"), dqc("constant int8[4,8]", 4)
    return [
        "aten.linear.default(float32[2,8], constant float32[4,8], constant float32[4])",
        "aten.linear.default(float32[2,8], constant float32[4,8])",
        "aten.linear.default(float32[2,8], buffer float32[4,8], buffer float32[4])",
        "aten.linear.default(float32[2,8], lifted float32[4,8], lifted float32[4])",
        "aten.linear.default(float32[2,8], float32[4,8], constant float32[4])",
        "aten.linear.default(float32[2,8], float32[4,8])",
        "aten.linear.default(float32[2,8], constant float32[4,8], float32[4])",
        "aten.linear.default(float32[2,3,8], constant float32[4,8], constant float32[4])",
        "aten.linear.default(float32[s,8], constant float32[4,8], constant float32[4])",
        "aten.linear.default(float32[u,8], constant float32[4,8], constant float32[4])",
        "aten.linear.default(float32[0,8], constant float32[4,8], constant float32[4])",
        "aten.linear.default(float16[2,8], constant float16[4,8], constant float16[4])",
        "aten.linear.default(bfloat16[2,8], constant bfloat16[4,8], constant bfloat16[4])",
        "aten.linear.default(float64[2,8], constant float64[4,8], constant float64[4])",
        "{ w = aten.erf.default(constant float32[4,8])  y = aten.linear.default(float32[2,8], w) }",
        *_activations("aten.linear.default(float32[2,8], constant float32[4,8], constant float32[4])"),
        static(y, x, w),
        static(bare, x, w),
        static(y, x, w, act="aten.relu.default"),
        static(y, x, w, act="aten.hardtanh.default"),
        static(y, x, w, act="aten.sigmoid.default"),
        static(y, x, w, quantized=False),
        static(y, x, w, act="aten.relu.default", quantized=False),
        static(y, x, w, extra="k = aten.abs.default(y)"),
        static(y, x, w, act="aten.relu.default", extra="k = aten.abs.default(z)"),
        static(y, x, w, extra="k = aten.abs.default(d)"),
        static(y, x, w, extra="k = aten.erf.default(v)"),
        static(y, x, dq("constant int8[4,8]")),
        static(y, x, dqt("constant int8[4,8]")),
        static(y, dqt("int8[2,8]"), w),
        static(y, dq2("int8[2,8]"), w),
        static(y, x, dq2("constant int8[4,8]")),
        static(y, x, dqg("constant int8[4,8]", 4, 2, 4)),
        static(y, x, dqa("constant int8[4,8]", "[1, 4]", "constant float32[4,2]", "constant int64[4,2]")),
        static(y, x, dqa("constant int8[4,8]", "[1, 8]", "constant float32[4,1]", "constant int64[4,1]")),
        static(y, x, dqc("int8[4,8]", 4)),
        static(y, x, dqc("buffer int8[4,8]", 4)),
        static(y, "aten.relu.default(float32[2,8])", w),
        static("aten.linear.default(d, v, float32[4])", x, w),
        static(y, dq("uint8[2,8]", "uint8"), w),
        static("aten.linear.default(d, constant float32[4,8])", x, w, extra="k = aten.abs.default(v)"),
        static(bare, dqa("int8[2,8]", "[1, 8]", "constant float32[2,1]", "constant int64[2,1]"), w),
        dynamic(bare, "float32[2,8]", dq("constant int8[4,8]"), after=f"r = {q('y')}"),
        dynamic(y, "float32[2,8]", w),
        dynamic(bare, "float32[2,8]", w),
        dynamic(bare, "float32[2,8]", w, after="z = aten.relu.default(y)"),
        dynamic(bare, "float32[2,8]", w, after=f"r = {q('y')}"),
        dynamic(bare, "float32[2,8]", w, after="k = aten.abs.default(d)"),
        dynamic(bare, "float32[2,8]", w, after="k = aten.erf.default(q)"),
        dynamic(bare, "float32[2,8]", w, after="k = aten.abs.default(c[0])"),
        dynamic("aten.linear.default(d, v, float32[4])", "float32[2,8]", w),
        dynamic(bare, "float32[2,8]", dq("constant int8[4,8]")),
        dynamic(bare, "float32[2,8]", dqt("constant int8[4,8]")),
        dynamic(bare, "float32[2,8]", dqg("constant int8[4,8]", 4, 2, 4)),
        dynamic(bare, "float32[2,8]", dqc("int8[4,8]", 4)),
        dynamic(bare, "float32[2,8]", w, variant="per_token"),
        dynamic(bare, "float32[2,8]", w, variant="plain_token"),
        dynamic(bare, "float32[2,8]", w, variant="symmetric"),
        dynamic(bare, "float32[2,8]", "aten.relu.default(constant float32[4,8])"),
        dynamic("aten.linear.default(d, constant float32[4,8])", "float32[2,8]", w, after="k = aten.abs.default(v)"),
        dynamic(bare, "float32[4,8]", dqa("constant int8[4,8]", "[1, 4]", "constant float32[4,2]"), variant="affine"),
        dynamic(bare, "float32[4,8]", dqa("constant int8[4,8]", "[1, 8]", "constant float32[4,1]"), variant="affine"),
        dynamic(bare, "float32[4,8]", w, variant="affine"),
        dynamic(bare, "float32[s,8]", w, variant="affine"),
        dynamic(bare, "float32[4,8]", w, variant="affine[1, 4]"),
        dynamic(bare, "float32[4,8]", dqa("constant int8[4,8]", "[4, 8]", "constant float32[1]"), variant="affine"),
        dynamic(bare, "float32[4,8]", dqa("constant int8[4,8]", "[2, 8]", "constant float32[2,1]"), variant="affine"),
        dynamic(bare, "float32[4,8]", dqa("int8[4,8]", "[1, 8]", "constant float32[4,1]"), variant="affine"),
        dynamic(bare, "float32[2,8]", dqa("constant int8[4,8]", "[4, 8]", "constant float32[1]")),
        dynamic(
            "aten.linear.default(d, v)  s = aten.sigmoid.default(float32[2,8])  k = aten.linear.default(d, v)",
            "float32[2,8]",
            w,
        ),
    ]


def _activations(call: str) -> list[str]:
    """A float product and what may follow it."""
    return [
        f"{{ y = {call}  z = aten.relu.default(y) }}",
        f"{{ y = {call}  z = aten.hardtanh.default(y) }}",
        f"{{ y = {call}  z = aten.clamp.default(y, 0.0, 6.0) }}",
        f"{{ y = {call}  z = aten.relu.default(y)  k = aten.abs.default(y) }}",
        f"{{ y = {call}  z = aten.relu.default(y)  k = aten.erf.default(z)  r = aten.erf.default(z) }}",
        f"{{ y = {call}  z = aten.relu.default(y)  r = {qt('z')} }}",
    ]


def _addmm() -> list[str]:
    call = "aten.addmm.default(constant float32[4], float32[2,8], constant float32[8,4])"
    y = "aten.addmm.default(constant float32[4], d, v)"
    x, w = dq("int8[2,8]"), dqc("constant int8[8,4]", 4, 1)
    return [
        call,
        "aten.addmm.default(float32[4], float32[2,8], constant float32[8,4])",
        "aten.addmm.default(constant float32[4], float32[2,8], float32[8,4])",
        "aten.addmm.default(constant float32[4], float32[2,8], constant float32[8,4], beta: 1, alpha: 1)",
        "aten.addmm.default(constant float16[4], float16[2,8], constant float16[8,4])",
        "aten.addmm.default(constant float32[4], float32[2,8], constant float32[8,4], beta: 2)",
        "aten.addmm.default(constant float32[4], float32[2,8], constant float32[8,4], alpha: 2)",
        "aten.addmm.default(constant float64[4], float64[2,8], constant float64[8,4])",
        "aten.addmm.default(constant float32[4], float32[s,8], constant float32[8,4])",
        "{ w = aten.permute.default(constant float32[4,8], [1, 0])"
        "  y = aten.addmm.default(constant float32[4], float32[2,8], w) }",
        *_activations(call),
        static(y, x, w),
        static(y, x, w, act="aten.relu.default"),
        static(y, x, w, quantized=False),
        static(y, x, dq("constant int8[8,4]")),
        static("aten.addmm.default(float32[4], d, v)", x, w),
        static(y, x, dq("int8[8,4]")),
        dynamic(y, "float32[2,8]", w),
        dynamic(y, "float32[2,8]", dq("constant int8[8,4]")),
        dynamic("aten.addmm.default(float32[4], d, v)", "float32[2,8]", w),
    ]


def _mm() -> list[str]:
    call = "aten.mm.default(float32[2,8], constant float32[8,4])"
    x, w = dq("int8[2,8]"), dqc("constant int8[8,4]", 4, 1)
    return [
        call,
        "aten.mm.default(float32[2,8], float32[8,4])",
        "aten.mm.default(constant float32[2,8], float32[8,4])",
        "aten.mm.default(float16[2,8], constant float16[8,4])",
        "aten.mm.default(float64[2,8], constant float64[8,4])",
        "aten.mm.default(float32[s,8], constant float32[8,4])",
        "{ w = aten.t.default(constant float32[4,8])  y = aten.mm.default(float32[2,8], w) }",
        *_activations(call),
        static("aten.mm.default(d, v)", x, w),
        static("aten.mm.default(d, v)", x, w, act="aten.hardtanh.default"),
        static("aten.mm.default(d, v)", x, w, quantized=False),
        static("aten.mm.default(d, v)", x, dq("int8[8,4]")),
        dynamic("aten.mm.default(d, v)", "float32[2,8]", w),
        dynamic("aten.mm.default(d, v)", "float32[2,8]", dq("constant int8[8,4]")),
    ]


def conv(x: str, w: str, b: str = "none", *, transposed: bool = False, groups: int = 1, dims: int = 2) -> str:
    ones, zeros = ", ".join(["1"] * dims), ", ".join(["0"] * dims)
    flag = "true" if transposed else "false"
    return f"aten.convolution.default({x}, {w}, {b}, [{ones}], [{zeros}], [{ones}], {flag}, [{zeros}], {groups})"


def _convolution() -> list[str]:
    w = "constant float32[8,4,3,3]"
    call = conv(IMAGE, w, "constant float32[8]")
    x, wq = dq(QIMAGE), dqc("constant int8[8,4,3,3]", 8)
    y = conv("d", "v", "constant float32[8]")
    padded = conv("p", "v", "constant float32[8]")
    pad = "aten.constant_pad_nd.default(d, [1, 1, 1, 1], 0.0)"
    return [
        call,
        conv(IMAGE, w),
        conv(IMAGE, w, "float32[8]"),
        conv(IMAGE, "float32[8,4,3,3]", "constant float32[8]"),
        conv(IMAGE, "buffer float32[8,4,3,3]", "buffer float32[8]"),
        conv("float32[1,4,8]", "constant float32[8,4,3]", dims=1),
        conv("float32[1,4,8,8,8]", "constant float32[8,4,3,3,3]", dims=3),
        conv(IMAGE, "constant float32[4,1,3,3]", groups=4),
        conv(IMAGE, "constant float32[4,2,3,3]", groups=2),
        conv(IMAGE, "constant float32[4,8,3,3]", transposed=True),
        conv(IMAGE, "constant float32[4,2,3,3]", transposed=True, groups=2),
        conv("float32[s,4,8,8]", w),
        conv("float32[u,4,8,8]", w),
        conv("float16[1,4,8,8]", "constant float16[8,4,3,3]"),
        conv("bfloat16[1,4,8,8]", "constant bfloat16[8,4,3,3]"),
        conv("float64[1,4,8,8]", "constant float64[8,4,3,3]"),
        "{ w = aten.erf.default(constant float32[8,4,3,3])  y = " + conv(IMAGE, "w") + " }",
        *_activations(call),
        static(y, x, wq),
        static(conv("d", "v"), x, wq),
        static(y, x, wq, act="aten.relu.default"),
        static(y, x, wq, act="aten.hardtanh.default"),
        static(y, x, wq, act="aten.sigmoid.default"),
        static(y, x, wq, quantized=False),
        static(y, x, dq("constant int8[8,4,3,3]")),
        static(y, x, dq("int8[8,4,3,3]")),
        static(y, "aten.relu.default(" + IMAGE + ")", wq),
        static(conv("d", "v", "float32[8]"), x, wq),
        static(conv("d", "v", groups=4), x, dqc("constant int8[4,1,3,3]", 4)),
        static(conv("d", "v", groups=2), x, dqc("constant int8[4,2,3,3]", 4)),
        static(conv("d", "v", dims=1), dq("int8[1,4,8]"), dqc("constant int8[8,4,3]", 8)),
        static(conv("d", "v", dims=3), dq("int8[1,4,8,8,8]"), dqc("constant int8[8,4,3,3,3]", 8)),
        static(conv("d", "v", transposed=True), x, dqc("constant int8[4,8,3,3]", 8, 1)),
        static(conv("d", "v", transposed=True), x, dqc("constant int8[4,8,3,3]", 4, 0)),
        static(conv("d", "v", transposed=True, groups=2), x, dqc("constant int8[4,2,3,3]", 2, 1)),
        static(conv("d", "v", transposed=True, groups=2), x, dq("constant int8[4,2,3,3]")),
        static(conv("d", "v", transposed=True), x, dq("constant int8[4,8,3,3]")),
        static(padded, x, wq, pad=pad),
        static(padded, dqt(QIMAGE), wq, pad=pad, act="aten.relu.default"),
        static(padded, x, wq, pad="aten.constant_pad_nd.default(d, [1, 1, 1, 1], 1.0)"),
        static(padded, x, wq, pad="aten.constant_pad_nd.default(d, [1, 1, 1, 1])"),
        static(padded, x, wq, pad="aten.constant_pad_nd.default(d, [1, 1])"),
        static(padded, x, wq, pad="aten.constant_pad_nd.default(d, [-1, 1, 1, 1], 0.0)"),
        static(padded, x, wq, pad="aten.constant_pad_nd.default(d, [1, 1, 1, 1, 0, 0], 0.0)"),
        static(padded, dq("int8[1,2,8,8]"), wq, pad="aten.constant_pad_nd.default(d, [1, 1, 1, 1, 1, 1], 0.0)"),
        static(padded, dq("int8[1,3,8,8]"), wq, pad="aten.constant_pad_nd.default(d, [0, 0, 0, 0, 1, 0], 0.0)"),
        static(padded, x, wq, pad=pad, extra="k = aten.abs.default(p)"),
        static(padded, x, wq, pad=pad, quantized=False),
        static(padded, "aten.relu.default(" + IMAGE + ")", wq, pad=pad),
        static(conv("p", "v", transposed=True), x, dq("constant int8[4,8,3,3]"), pad=pad),
        static(
            conv("p", "v", dims=1),
            dq("int8[1,4,8]"),
            dqc("constant int8[8,4,3]", 8),
            pad="aten.constant_pad_nd.default(d, [1, 1], 0.0)",
        ),
        static(
            conv("p", "v", dims=1),
            dq("int8[1,3,8]"),
            dqc("constant int8[8,4,3]", 8),
            pad="aten.constant_pad_nd.default(d, [1, 1, 1, 0], 0.0)",
        ),
        "{ p = aten.constant_pad_nd.default(" + IMAGE + ", [1, 1, 1, 1], 0.0)  y = " + conv("p", w) + " }",
        dynamic(y, IMAGE, wq),
        dynamic(conv("d", "v"), IMAGE, wq, after="z = aten.relu.default(y)"),
        dynamic(y, IMAGE, dq("constant int8[8,4,3,3]")),
        dynamic(conv("d", "v", groups=4), IMAGE, dqc("constant int8[4,1,3,3]", 4)),
        dynamic(conv("d", "v", groups=2), IMAGE, dqc("constant int8[4,2,3,3]", 4)),
        dynamic(conv("d", "v", groups=2, transposed=True), IMAGE, dqc("constant int8[4,2,3,3]", 2, 1)),
        dynamic(conv("d", "v", transposed=True), IMAGE, dqc("constant int8[4,8,3,3]", 8, 1)),
        dynamic(conv("d", "v", transposed=True), IMAGE, dqc("constant int8[4,8,3,3]", 4, 0)),
        dynamic(conv("d", "v", groups=4, transposed=True), IMAGE, dqc("constant int8[4,2,3,3]", 2, 1)),
        dynamic(conv("d", "v", dims=1), "float32[1,4,8]", dqc("constant int8[8,4,3]", 8)),
        dynamic(conv("d", "constant float32[8,4,3]", dims=1), "float32[1,4,8]", dqc("constant int8[8,4,3]", 8),
                after="k = aten.erf.default(v)"),
        dynamic(conv("d", "constant float32[4,1,3,3]", groups=4), IMAGE, wq, after="k = aten.erf.default(v)"),
        dynamic(conv("d", "v", groups=4), IMAGE, dqc("constant int8[8,1,3,3]", 8)),
        dynamic(conv("d", "v", transposed=True), "float32[1,1,8,8]", dqc("constant int8[1,8,3,3]", 8, 1)),
        dynamic(padded, IMAGE, wq, between=f"p = {pad}"),
        dynamic(padded, IMAGE, wq, between=f"p = {pad}", after=f"r = {q('y')}"),
        dynamic(conv("d", "v"), IMAGE, wq, after=f"r = {q('y')}"),
    ]


def bn(x: str, w: str, b: str, m: str, v: str) -> str:
    return f"aten._native_batch_norm_legit_no_training.default({x}, {w}, {b}, {m}, {v}, 0.1, 0.00001)"


def _batch_norm() -> list[str]:
    c = "constant float32[4]"
    good = bn(IMAGE, c, c, c, c)
    fold = conv("float32[1,4,8,8]", "constant float32[4,4,1,1]")
    deep = conv("float32[1,4,4,4,4]", "constant float32[4,4,1,1,1]", dims=3)
    return [
        good,
        bn("float32[2,4]", c, c, c, c),
        bn("float32[2,4,8]", c, c, c, c),
        bn("float32[2,4,4,4,4]", c, c, c, c),
        bn(IMAGE, "none", "none", c, c),
        bn(IMAGE, "float32[4]", c, c, c),
        bn(IMAGE, c, "float32[4]", c, c),
        bn(IMAGE, c, c, "float32[4]", c),
        bn(IMAGE, c, c, c, "float32[4]"),
        bn("float32[1,s,8,8]", *["constant float32[s]"] * 4),
        bn("float32[s,4,8,8]", c, c, c, c),
        bn("float32[0,4,8,8]", c, c, c, c),
        bn("float16[1,4,8,8]", *["constant float16[4]"] * 4),
        bn("bfloat16[1,4,8,8]", *["constant bfloat16[4]"] * 4),
        bn("float16[1,4,8,8]", *["constant float32[4]"] * 4),
        bn(IMAGE, "buffer float32[4]", "buffer float32[4]", "buffer float32[4]", "buffer float32[4]"),
        "{ n = " + good + "  y = aten.relu.default(n[0]) }",
        "{ n = " + good + "  y = aten.relu.default(n[0])  k = aten.abs.default(n[0]) }",
        "{ n = " + good + "  y = aten.relu.default(n[0])  k = aten.abs.default(n[1]) }",
        "{ n = " + good + "  y = aten.relu.default(n[0])  k = operator.getitem(n, 1) }",
        "{ y = aten.linear.default(float32[2,4,8], constant float32[4,8])  n = " + bn("y", c, c, c, c) + " }",
        "{ y = aten.linear.default(float32[2,4,8], constant float32[4,8])  n = " + bn("y", "none", c, c, c) + " }",
        "{ y = aten.linear.default(float32[2,4,8], constant float32[4,8])  k = aten.erf.default(y)  n = "
        + bn("y", c, c, c, c)
        + " }",
        "{ y = aten.linear.default(float32[2,4,8], float32[4,8])  n = " + bn("y", c, c, c, c) + " }",
        "{ y = aten.mm.default(float32[2,8], constant float32[8,4])  n = " + bn("y", c, c, c, c) + " }",
        "{ y = aten.linear.default(float32[2,8], constant float32[4,8])  n = " + bn("y", c, c, c, c) + " }",
        "{ y = " + fold + "  n = " + bn("y", c, c, c, c) + " }",
        "{ y = " + fold + "  n = " + bn("y", c, c, "float32[4]", "float32[4]") + " }",
        "{ y = " + fold + "  n = " + bn("y", c, "float32[4]", c, c) + " }",
        "{ y = " + fold + "  n = " + bn("y", "none", "none", c, c) + " }",
        "{ y = " + fold + "  n = " + bn("y", "none", c, "float32[4]", c) + " }",
        "{ y = " + fold + "  n = " + bn("y", "float32[4]", c, c, c) + " }",
        "{ y = " + conv("float32[1,4,8,8]", "float32[4,4,1,1]") + "  n = " + bn("y", c, c, "float32[4]", c) + " }",
        "{ y = " + conv("float32[1,4,8,8]", "float32[4,4,1,1]") + "  n = " + bn("y", c, c, c, c) + " }",
        "{ y = " + deep + "  n = " + bn("y", c, c, c, c) + " }",
        "{ y = " + deep + "  n = " + bn("y", c, c, "float32[4]", c) + " }",
        "{ y = " + fold + "  k = aten.abs.default(y)  n = " + bn("y", c, c, "float32[4]", c) + " }",
        "{ y = aten.linear.default(float32[2,8], constant float32[4,8])  n = " + bn("y", c, c, "float32[4]", c) + " }",
        "{ y = aten.linear.default(float32[2,8], float32[4,8])  n = " + bn("y", c, c, "float32[4]", c) + " }",
        "{ y = aten.mm.default(float32[2,8], constant float32[8,4])  n = " + bn("y", c, c, "float32[4]", c) + " }",
    ]


def _pools() -> dict[str, list[str]]:
    avg, pool = "aten.avg_pool2d.default", "aten.max_pool2d.default"
    return {
        "avg_pool2d.default": [
            *common(avg + "({}, [2, 2])"),
            f"{avg}({F4}, [2, 2], [2, 2])",
            f"{avg}({F4}, [3], [2])",
            f"{avg}({F4}, [2, 2], [])",
            f"{avg}({F4}, [2, 2], [2, 2], [0, 0], true)",
            f"{avg}({F4}, [2, 2], [2, 2], [0, 0], false)",
            f"{avg}({F4}, [2, 2], [2, 2], [1, 1])",
            f"{avg}({F4}, [2, 2], [2, 2], [0, 1])",
            f"{avg}({F4}, [2, 2], [2, 2], [1, 1], false, false)",
            f"{avg}({F4}, [2, 2], [2, 2], [1, 1], false, true)",
            f"{avg}({F4}, [2, 2], [2, 2], [0, 0], false, true)",
            f"{avg}({F4}, [2, 2], [2, 2], [0, 0], false, true, 4)",
            f"{avg}({F4}, [2, 2], [2, 2], [0, 0], false, true, 3)",
            f"{avg}({F4}, [2, 3], [2, 2], [0, 0], false, true, 6)",
            chain(f"{avg}(a, [2, 2])", I4),
            "{ " + f"a = {dqt(I4)}  y = {avg}(a, [2, 2])  r = {qt('y')}" + " }",
        ],
        "max_pool2d.default": [
            *common(pool + "({}, [2, 2])"),
            *quantizable(f"{pool}(a, [2, 2])", I4),
            f"{pool}({F4}, [2, 2], [2, 2])",
            f"{pool}({F4}, [2, 2], [3, 3])",
            f"{pool}({F4}, [2, 3], [3, 3])",
            f"{pool}({F4}, [3, 2], [3, 3])",
            f"{pool}({F4}, [3], [2])",
            f"{pool}({F4}, [3], [4])",
            f"{pool}({F4}, [3, 3], [2, 2], [1, 1], [2, 2])",
            f"{pool}({F4}, [3, 3], [2, 2], [0, 0], [1, 1], true)",
            f"{pool}(float32[s,3,8,8], [3, 3], [2, 2], [0, 0], [1, 1], true)",
            f"{pool}(float32[s,3,8,8], [3, 3], [2, 2], [0, 0], [1, 1], false)",
        ],
    }


def _movement() -> dict[str, list[str]]:
    view, slice_, pad = "aten.view.default", "aten.slice.Tensor", "aten.constant_pad_nd.default"
    same = "{{ a = {dq}  y = aten.slice.Tensor(a, 1, 0, 2)  r = {q} }}"
    return {
        "view_copy.default": [
            *common(view + "({}, [-1])", rank=2),
            *quantizable(f"{view}(a, [2, 12])", "int8[2,3,4]"),
            f"{view}(float32[2,3,4], [6, 4])",
            f"{view}(float32[2,3,4], [-1, 4])",
            f"{view}(float32[s,3,4], [s, 12])",
            f"{view}(float32[s,3,4], [-1, 12])",
            "{ " + f"a = {dqt('int8[s,3,4]')}  y = {view}(a, [s, 12])  r = {qt('y')}" + " }",
        ],
        "permute_copy.default": [
            *common("aten.permute.default({}, [0, 2, 3, 1])"),
            *quantizable("aten.permute.default(a, [1, 0])", "int8[2,3]"),
        ],
        "unsqueeze_copy.default": [
            *common("aten.unsqueeze.default({}, 4)"),
            *quantizable("aten.unsqueeze.default(a, 2)", "int8[2,3]"),
            "aten.unsqueeze.default(float32[2,3], 0)",
            "aten.unsqueeze.default(float32[2,3], 1)",
            "aten.unsqueeze.default(float32[2,3], 2)",
            "aten.unsqueeze.default(float32[2,3], -1)",
            "aten.unsqueeze.default(float32[2,3], -2)",
            "aten.unsqueeze.default(float32[2,3], -3)",
        ],
        "cat.default": [
            "aten.cat.default([float32[2,3], float32[2,3]])",
            "aten.cat.default([float32[2,3], float32[2,3]], 1)",
            "aten.cat.default([float32[2,3]])",
            "aten.cat.default([float32[2,3], float32[2,3], float32[2,3], float32[2,3], float32[2,3], float32[2,3]])",
            "aten.cat.default([float32[2,3], float16[2,3]])",
            "aten.cat.default([float16[2,3], float16[2,3]])",
            "aten.cat.default([bfloat16[2,3], bfloat16[2,3]])",
            "aten.cat.default([float32[2,3], float32[0,3]])",
            "aten.cat.default([float32[s,3], float32[2,3]])",
            "aten.cat.default([float32[u,3], float32[2,3]])",
            "aten.cat.default([int64[2,3], int64[2,3]])",
            chain("aten.cat.default([a, b])", "int8[2,3]", "int8[2,3]"),
            "{ " + f"a = {dqt('int8[2,3]')}  y = aten.cat.default([a, {dqt('int8[4,3]')}])  r = {qt('y')}" + " }",
            "{ " + f"a = {dqt('int8[2,3]')}  y = aten.cat.default([a, float32[2,3]])  r = {qt('y')}" + " }",
            "{ " + f"a = {dqt('int8[2,3]')}  y = aten.cat.default([a])  r = {qt('y')}" + " }",
        ],
        "slice_copy.Tensor": [
            *common(slice_ + "({}, 1, 0, 1)"),
            *quantizable(f"{slice_}(a, 1, 0, 2)", "int8[2,3]"),
            f"{slice_}(float32[2,8], 1, 0, 4)",
            f"{slice_}(float32[2,8], 1, 0, 8, 2)",
            f"{slice_}(float32[2,8], 1, 0, 8, 1)",
            f"{slice_}(float32[2,8], 1, 4, 4)",
            f"{slice_}(float32[1,8], 1, 0, 1)",
            f"{slice_}(float32[s,8], 1, 0, 4)",
            f"{slice_}(float32[s,8], 0, 0, 1)",
            f"{slice_}(float32[8,8], -1, -4)",
            "{ x = aten.relu.default(float32[s,4])  y = aten.slice.Tensor(float32[8,8], 0, 0, s) }",
            same.format(dq=dq("int8[2,3]"), q=q("y")),
            same.format(dq=dq("int8[2,3]"), q=q("y", scale=0.2)),
            same.format(dq=dq("int8[2,3]"), q=q("y", "uint8")),
            same.format(dq=dqt("int8[2,3]"), q=qt("y")),
            same.format(dq=dqt("int8[2,3]"), q=q("y")),
            same.format(dq=dqt("int8[2,3]", "k[0]", "k[1]"), q=qt("y", "k[0]", "k[1]")).replace(
                "{", "{ k = " + choose("float32[2,3]"), 1
            ),
            same.format(dq=dq("int8[2,3]"), q=q("y", scale=0.2)).replace("}", " k = aten.abs.default(y) }"),
            same.format(dq=dqc("int8[2,3]", 2), q=qc("y", 2)),
            same.format(dq=dqa("int8[2,3]", "[2, 3]", "constant float32[1]"), q=q("y")),
        ],
        "constant_pad_nd.default": [
            *common(pad + "({}, [1, 1])", unbacked=False),
            f"{pad}(float32[2,8], [1, 1], 0.0)",
            f"{pad}(float32[2,8], [1, 1], 2.0)",
            f"{pad}(float32[2,8], [-1, 1], 0.0)",
            f"{pad}(float32[2,8], [1, 0, -1, 0])",
            f"{pad}(float32[2,8], [0, 0])",
            "{ " + f"a = {dqt('int8[2,8]')}  y = {pad}(a, [1, 1])  r = {qt('y')}" + " }",
        ],
        "clone.default": [
            *common("aten.clone.default({})"),
            "aten.clone.default(float32[1,2,3,4], memory_format: contiguous_format)",
            "aten.clone.default(float32[1,2,3,4], memory_format: channels_last)",
            "{ " + f"a = {dqt('int8[2,8]')}  y = aten.clone.default(a)  r = {qt('y')}" + " }",
        ],
        "_clone_dim_order.default": [
            *common("dim_order_ops._clone_dim_order.default({})"),
            "dim_order_ops._clone_dim_order.default(float32[1,2,3,4], dim_order: [0, 1, 2, 3])",
            "dim_order_ops._clone_dim_order.default(float32[1,2,3,4], dim_order: [0, 2, 3, 1])",
            "{ p = aten.relu.default(float32[1,2,3,4])"
            "  y = dim_order_ops._clone_dim_order.default(p, dim_order: [0, 2, 3, 1]) }",
            "{ " + f"a = {dqt('int8[2,8]')}  y = dim_order_ops._clone_dim_order.default(a)  r = {qt('y')}" + " }",
        ],
        "_to_dim_order_copy.default": [
            *common("dim_order_ops._to_dim_order_copy.default({})"),
            *quantizable("dim_order_ops._to_dim_order_copy.default(a)", "int8[2,3]"),
            "dim_order_ops._to_dim_order_copy.default(float32[2,3], dtype: float32)",
            "dim_order_ops._to_dim_order_copy.default(float32[2,3], dtype: float16)",
            "dim_order_ops._to_dim_order_copy.default(float16[2,3], dtype: float32)",
            "dim_order_ops._to_dim_order_copy.default(float32[2,3], dtype: int64)",
            "dim_order_ops._to_dim_order_copy.default(int64[2,3], dtype: float32)",
            "dim_order_ops._to_dim_order_copy.default(float32[1,2,3,4], dim_order: [0, 2, 3, 1])",
        ],
    }


def _maths() -> dict[str, list[str]]:
    return {
        "_softmax.default": [
            *common("aten._softmax.default({}, -1, false)"),
            "aten._softmax.default(float32[2,3], -1, false)",
            "aten._softmax.default(float32[2,3], 1, false)",
            "aten._softmax.default(float32[2,3], 0, false)",
            "aten._softmax.default(float32[2,3], -2, false)",
            "aten._softmax.default(float32[2,3,4], 1, false)",
            "aten._softmax.default(float32[2,3,4], 2, false)",
        ],
        "bmm.default": [
            "aten.bmm.default(float32[2,3,4], float32[2,4,5])",
            "aten.bmm.default(float32[2,3,4], constant float32[2,4,5])",
            "aten.bmm.default(float16[2,3,4], float16[2,4,5])",
            "aten.bmm.default(float64[2,3,4], float64[2,4,5])",
            "aten.bmm.default(float32[s,3,4], float32[s,4,5])",
            "aten.bmm.default(float32[u,3,4], float32[u,4,5])",
            "aten.bmm.default(float32[2,0,4], float32[2,4,5])",
            "{ " + f"a = {dqt('int8[2,3,3]')}  y = aten.bmm.default(a, a)  r = {qt('y')}" + " }",
        ],
        "pow.Tensor_Scalar": [
            *common("aten.pow.Tensor_Scalar({}, 2)"),
            "aten.pow.Tensor_Scalar(float32[2,3], 2.0)",
            "aten.pow.Tensor_Scalar(float32[2,3], 1)",
            "aten.pow.Tensor_Scalar(float32[2,3], 3)",
            "aten.pow.Tensor_Scalar(float32[2,3], 0.5)",
            "aten.pow.Tensor_Scalar(float32[2,3], -2)",
        ],
        "mean.dim": [
            *common("aten.mean.dim({}, [-1, -2], true)"),
            *quantizable("aten.mean.dim(a, [2, 3], true)", I4),
            f"aten.mean.dim({F4}, [2, 3], true)",
            f"aten.mean.dim({F4}, [3, 2], true)",
            f"aten.mean.dim({F4}, [-1, -2], true)",
            f"aten.mean.dim({F4}, [-1, 2], true)",
            f"aten.mean.dim({F4}, [2, 3], false)",
            f"aten.mean.dim({F4}, [2, 3])",
            f"aten.mean.dim({F4}, [1, 2], true)",
            f"aten.mean.dim({F4}, [1, 2, 3], true)",
            f"aten.mean.dim({F4}, [3], true)",
            f"aten.mean.dim({F4}, none, true)",
            "aten.mean.dim(float32[3,8,8], [-1, -2], true)",
            "aten.mean.dim(float32[1,3,8,8,8], [2, 3], true)",
            "aten.mean.dim(float32[1,3,4,8,8], [-1, -2], true)",
            f"aten.mean.dim({F4}, [2, 3], true, dtype: float32)",
            f"aten.mean.dim({F4}, [2, 3], true, dtype: float64)",
        ],
        "max.dim": [
            *common("aten.max.dim({}, 2, true)"),
            f"aten.max.dim({F4}, 3, true)",
            f"aten.max.dim({F4}, -1, true)",
            f"aten.max.dim({F4}, 2, false)",
            f"aten.max.dim({F4}, 2)",
            f"aten.max.dim({F4}, 1, true)",
            f"aten.max.dim({F4}, 0, true)",
            "{ m = aten.max.dim(float32[1,3,8,8], 2, true)  y = aten.relu.default(m[0])  k = operator.getitem(m, 1) }",
            "aten.max.dim(int8[1,3,8,8], 2, true)",
            "aten.max.dim(uint8[1,3,8,8], 2, true)",
            "aten.max.dim(float32[3,8,8], 2, true)",
            "aten.max.dim(float32[1,3,4,8,8], 2, true)",
            "{ m = aten.max.dim(float32[1,3,8,8], 2, true)  y = aten.relu.default(m[0]) }",
            "{ m = aten.max.dim(float32[1,3,8,8], 2, true)  y = aten.relu.default(m[0])  k = aten.abs.default(m[1]) }",
            "{ m = aten.max.dim(float32[1,3,8,8], 2, true)  k = aten.abs.default(m[1]) }",
        ],
        "prelu.default": [
            "aten.prelu.default(float32[1,3,8,8], constant float32[3])",
            "aten.prelu.default(float32[1,3,8,8], buffer float32[3])",
            "aten.prelu.default(float32[1,3,8,8], float32[3])",
            "aten.prelu.default(float16[1,3,8,8], constant float16[3])",
            "aten.prelu.default(float64[1,3,8,8], constant float64[3])",
            "aten.prelu.default(float32[s,3,8,8], constant float32[3])",
            "{ w = aten.erf.default(constant float32[3])  y = aten.prelu.default(float32[1,3,8,8], w) }",
        ],
        "upsample_bilinear2d.vec": [
            *common("aten.upsample_bilinear2d.vec({}, [4, 4], false, none)", unbacked=False),
            f"aten.upsample_bilinear2d.vec({F4}, none, true, [2.0, 2.0])",
            "aten.upsample_bilinear2d.vec(float32[s,3,8,8], [16, 16], false, none)",
            "aten.upsample_bilinear2d.vec(float32[1,3,s,8], none, false, [2.0, 2.0])",
        ],
        "clamp.default": [
            *common("aten.clamp.default({}, 0.0, 1.0)"),
            *quantizable("aten.clamp.default(a, 0.0, 1.0)", "int8[2,3]"),
            "aten.clamp.default(float32[2,3], none, 1.0)",
            "aten.clamp.default(int64[2,3], 0, 1)",
        ],
        "hardtanh.default": [
            *common("aten.hardtanh.default({})"),
            *quantizable("aten.hardtanh.default(a)", "int8[2,3]"),
            "aten.hardtanh.default(float32[2,3], 0.0, 6.0)",
        ],
        "relu.default": [
            *common("aten.relu.default({})"),
            *quantizable("aten.relu.default(a)", "int8[2,3]"),
            "{ " + f"a = {dqt('int8[2,3]')}  y = aten.relu.default(a)  r = "
            + qa("y", "[2, 3]", "constant float32[1]", "constant int64[1]") + " }",
            "aten.relu.default(int64[2,3])",
        ],
    }


def _quantization() -> dict[str, list[str]]:
    tensors = ("float32[2,3]", "float16[2,3]", "bfloat16[2,3]", "float32[0,3]", "float32[s,3]", "float32[u,3]")
    return {
        "quantize_per_tensor.default": [
            *(q(x) for x in tensors),
            q("float32[2,3]", "uint8"),
            f"{QD}.quantize_per_tensor.default(float32[2,3], 0.1, 0, -32768, 32767, int16)",
            f"{QD}.quantize_per_tensor.default(float32[2,3], 0.1, 0, -100, 100, int32)",
            qt("float32[2,3]"),
            qc("float32[2,3]", 2),
        ],
        "dequantize_per_tensor.default": [
            *(dq(x) for x in ("int8[2,3]", "int8[0,3]", "int8[s,3]", "int8[u,3]", "constant int8[2,3]")),
            dq("uint8[2,3]", "uint8"),
            f"{QD}.dequantize_per_tensor.default(int16[2,3], 0.1, 0, -32768, 32767, int16)",
            f"{QD}.dequantize_per_tensor.default(int8[2,3], 0.1, 0, -128, 127, int8, out_dtype: float16)",
            f"{QD}.dequantize_per_tensor.default(int8[2,3], 0.1, 0, -128, 127, int8, out_dtype: bfloat16)",
            f"{QD}.dequantize_per_tensor.default(int8[2,3], 0.1, 0, -128, 127, int8, out_dtype: float64)",
            dqt("int8[2,3]"),
            dqc("int8[2,3]", 2),
            "{ " + f"d = {dq('int8[2,3]')}  r = {q('d')}" + " }",
        ],
        "quantize_affine.default": [
            qa("float32[2,4]", "[1, 4]", "constant float32[2,1]", "constant int64[2,1]"),
        ],
        "dequantize_affine.default": [
            dqa("int8[2,4]", "[1, 4]", "constant float32[2,1]", "constant int64[2,1]"),
        ],
        "choose_qparams_affine.default": [
            'torchao.choose_qparams_affine.default(float32[2,4], "ASYMMETRIC", [1, 4], int8, -128, 127)',
            choose("float32[2,3]"),
        ],
    }


def _all() -> dict[str, list[str]]:
    chained = "{{ a = {dq}  y = aten.{op}(a)  r = {q} }}"
    probes = {
        name: [
            *common(f"aten.{name}({{}})", rank=2),
            *([] if name == "leaky_relu.default" else [f"aten.{name}(int64[2,3])"]),
            chained.format(dq=dqt("int8[2,3]"), op=name, q=qt("y")),
        ]
        for name in UNARY
    }
    probes |= {name: _binary(name) for name in BINARY}
    probes |= {
        "linear.default": _linear(),
        "addmm.default": _addmm(),
        "mm.default": _mm(),
        "convolution.default": _convolution(),
        "_native_batch_norm_legit_no_training.default": _batch_norm(),
    }
    return probes | _pools() | _movement() | _maths() | _quantization()


PROBES: dict[str, list[str]] = _all()


def all_probes() -> Iterator[Probe]:
    """Every probe, texts that occur twice once, with the ones that return a value that is also used."""
    seen: set[str] = set()
    for config, texts in PROBES.items():
        for text in texts:
            if text not in seen:
                seen.add(text)
                yield Probe(config, text)
    relu = "  z = aten.relu.default(y)"
    linear = "aten.linear.default(float32[2,8], constant float32[4,8])"
    yield Probe("convolution.default", "{ y = " + conv(IMAGE, "constant float32[8,4,3,3]") + relu + " }", ("y",))
    yield Probe("linear.default", "{ y = " + linear + relu + " }", ("y",))
    yield Probe("add.Tensor", chain("aten.add.Tensor(a, b)", "int8[2,3]", "int8[2,3]"), ("y",))
    returned = "{ " + f"a = {dqt('int8[2,3]')}  y = aten.relu.default(a)  r = {qt('y')}" + " }"
    yield Probe("relu.default", returned, ("y",))
    yield Probe("relu.default", returned, ("a",))
    yield Probe("slice_copy.Tensor", PROBES["slice_copy.Tensor"][-6], ("y",))
    weight = dqc("constant int8[4,8]", 4)
    yield Probe("linear.default", static("aten.linear.default(d, v)", dq("int8[2,8]"), weight), ("y",))
    yield Probe("linear.default", static("aten.linear.default(d, v)", dq("int8[2,8]"), weight), ("d",))
    yield Probe("linear.default", dynamic("aten.linear.default(d, v)", "float32[2,8]", weight), ("q", "d"))
    norm = bn(IMAGE, *["constant float32[4]"] * 4)
    yield Probe("_native_batch_norm_legit_no_training.default", "{ n = " + norm + "  y = aten.relu.default(n[0]) }")
    after = "{ y = aten.linear.default(float32[2,4,8], constant float32[4,8])  n = "
    yield Probe(
        "_native_batch_norm_legit_no_training.default", after + bn("y", *["constant float32[4]"] * 4) + " }", ("y",)
    )
