"""What SPIR-V modules consist of: their instructions, and what the numbers in them mean.

The tables hold what kernels for OpenCL contain. An instruction or a value that they lack is shown by its number.
Source: the SPIR-V specification, version 1.6, sections 2.3 and 3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

MAGIC: Final = 0x07230203
HEADER_BYTES: Final = 20


class Instruction(NamedTuple):
    """One instruction. ``offset``: of its first word in the module, in bytes; ``operands``: the words after that."""

    opcode: int
    offset: int
    operands: tuple[int, ...]


def instructions(spirv: bytes) -> Iterator[Instruction]:
    """The instructions of a module in their order. Raises ValueError for bytes that are not one."""
    if len(spirv) < HEADER_BYTES or len(spirv) % 4 or int.from_bytes(spirv[:4], "little") != MAGIC:
        raise ValueError("not a SPIR-V module")
    words = struct.unpack(f"<{len(spirv) // 4}I", spirv)
    at = HEADER_BYTES // 4
    while at < len(words):
        opcode, size = words[at] & 0xFFFF, words[at] >> 16
        if size == 0 or at + size > len(words):
            raise ValueError(f"a SPIR-V module with a damaged instruction at byte {4 * at}")
        yield Instruction(opcode, 4 * at, words[at + 1 : at + size])
        at += size


def string(words: tuple[int, ...]) -> tuple[str, int]:
    """The string that ``words`` start with, and how many of them it takes."""
    data = struct.pack(f"<{len(words)}I", *words)
    end = data.index(b"\0")
    return data[:end].decode(errors="replace"), end // 4 + 1


def kernel_names(spirv: bytes) -> dict[str, int]:
    """Where in the module the name of each kernel stands (ended by a zero byte)."""
    names = {}
    for opcode, offset, operands in instructions(spirv):
        if opcode == OP_FUNCTION:
            break
        if opcode == OP_ENTRY_POINT:
            names[string(operands[2:])[0]] = offset + 12
    return names


def capabilities(spirv: bytes) -> set[str]:
    """The names of the capabilities that the module declares."""
    found = set()
    for opcode, _, operands in instructions(spirv):
        if opcode != OP_CAPABILITY:
            break
        found.add(ENUMERATIONS["capability"].get(operands[0], str(operands[0])))
    return found


def _numbered(text: str) -> dict[int, str]:
    """Lines "first: names" of things with consecutive numbers."""
    table: dict[int, str] = {}
    for line in text.strip().split("\n"):
        first, names = line.split(":")
        table.update(enumerate(names.split(), int(first)))
    return table


OP_ENTRY_POINT: Final = 15
OP_CAPABILITY: Final = 17
OP_FUNCTION: Final = 54

# Instructions whose operands are a result type, a result and ids.
VALUES: Final = _numbered("""
1: Undef
41: ConstantTrue ConstantFalse
44: ConstantComposite
46: ConstantNull
55: FunctionParameter
57: FunctionCall
65: AccessChain InBoundsAccessChain PtrAccessChain
70: InBoundsPtrAccessChain
77: VectorExtractDynamic VectorInsertDynamic
80: CompositeConstruct
83: CopyObject
109: ConvertFToU ConvertFToS ConvertSToF ConvertUToF UConvert SConvert FConvert
117: ConvertPtrToU SatConvertSToU SatConvertUToS ConvertUToPtr PtrCastToGeneric GenericCastToPtr
124: Bitcast
126: SNegate FNegate IAdd FAdd ISub FSub IMul FMul UDiv SDiv FDiv UMod SRem SMod FRem FMod
142: VectorTimesScalar
148: Dot IAddCarry ISubBorrow UMulExtended SMulExtended
154: Any All IsNan IsInf IsFinite IsNormal SignBitSet LessOrGreater Ordered Unordered
164: LogicalEqual LogicalNotEqual LogicalOr LogicalAnd LogicalNot Select IEqual INotEqual
172: UGreaterThan SGreaterThan UGreaterThanEqual SGreaterThanEqual ULessThan SLessThan
178: ULessThanEqual SLessThanEqual FOrdEqual FUnordEqual FOrdNotEqual FUnordNotEqual
184: FOrdLessThan FUnordLessThan FOrdGreaterThan FUnordGreaterThan
188: FOrdLessThanEqual FUnordLessThanEqual FOrdGreaterThanEqual FUnordGreaterThanEqual
194: ShiftRightLogical ShiftRightArithmetic ShiftLeftLogical BitwiseOr BitwiseXor BitwiseAnd Not
204: BitReverse BitCount
227: AtomicLoad
229: AtomicExchange AtomicCompareExchange
232: AtomicIIncrement AtomicIDecrement AtomicIAdd AtomicISub AtomicSMin AtomicUMin AtomicSMax
239: AtomicUMax AtomicAnd AtomicOr AtomicXor
245: Phi
261: GroupAll GroupAny GroupBroadcast
333: GroupNonUniformElect
337: GroupNonUniformBroadcast
345: GroupNonUniformShuffle GroupNonUniformShuffleXor GroupNonUniformShuffleUp
348: GroupNonUniformShuffleDown
400: CopyLogical PtrEqual PtrNotEqual PtrDiff
""")

# The others. t: result type; r: result; i: an id; *: more ids; l: a number; L: more numbers; s: a string;
# n: a number of the result's type; c: the numbers and labels of a switch; names in <>: of ENUMERATIONS.
OTHERS: Final[dict[int, tuple[str, str]]] = {
    0: ("Nop", ""),
    3: ("Source", "<source-language> l"),
    4: ("SourceExtension", "s"),
    5: ("Name", "i s"),
    6: ("MemberName", "i l s"),
    7: ("String", "r s"),
    8: ("Line", "i l l"),
    10: ("Extension", "s"),
    11: ("ExtInstImport", "r s"),
    12: ("ExtInst", "t r i <extended-instruction> *"),
    14: ("MemoryModel", "<addressing-model> <memory-model>"),
    15: ("EntryPoint", "<execution-model> i s *"),
    16: ("ExecutionMode", "i <execution-mode> L"),
    17: ("Capability", "<capability>"),
    19: ("TypeVoid", "r"),
    20: ("TypeBool", "r"),
    21: ("TypeInt", "r l l"),
    22: ("TypeFloat", "r l"),
    23: ("TypeVector", "r i l"),
    28: ("TypeArray", "r i i"),
    30: ("TypeStruct", "r *"),
    32: ("TypePointer", "r <storage-class> i"),
    33: ("TypeFunction", "r i *"),
    34: ("TypeEvent", "r"),
    43: ("Constant", "t r n"),
    54: ("Function", "t r <function-control> i"),
    56: ("FunctionEnd", ""),
    59: ("Variable", "t r <storage-class> *"),
    61: ("Load", "t r i <memory-access> L"),
    62: ("Store", "i i <memory-access> L"),
    63: ("CopyMemory", "i i <memory-access> L"),
    64: ("CopyMemorySized", "i i i <memory-access> L"),
    71: ("Decorate", "i <decoration>"),
    72: ("MemberDecorate", "i l <decoration>"),
    79: ("VectorShuffle", "t r i i L"),
    81: ("CompositeExtract", "t r i L"),
    82: ("CompositeInsert", "t r i i L"),
    123: ("GenericCastToPtrExplicit", "t r i <storage-class>"),
    224: ("ControlBarrier", "i i i"),
    225: ("MemoryBarrier", "i i"),
    228: ("AtomicStore", "i i i i"),
    246: ("LoopMerge", "i i <loop-control> L"),
    247: ("SelectionMerge", "i <selection-control>"),
    248: ("Label", "r"),
    249: ("Branch", "i"),
    250: ("BranchConditional", "i i i L"),
    251: ("Switch", "i i c"),
    253: ("Return", ""),
    254: ("ReturnValue", "i"),
    255: ("Unreachable", ""),
    256: ("LifetimeStart", "i l"),
    257: ("LifetimeStop", "i l"),
    317: ("NoLine", ""),
    330: ("ModuleProcessed", "s"),
}

OTHERS.update(
    {
        number: (f"Group{name}", "t r i <group-operation> i *")
        for number, name in _numbered("""
264: IAdd FAdd FMin UMin SMin FMax UMax SMax
349: NonUniformIAdd NonUniformFAdd NonUniformIMul NonUniformFMul NonUniformSMin NonUniformUMin NonUniformFMin
356: NonUniformSMax NonUniformUMax NonUniformFMax NonUniformBitwiseAnd NonUniformBitwiseOr NonUniformBitwiseXor
362: NonUniformLogicalAnd NonUniformLogicalOr NonUniformLogicalXor
""").items()
    }
)

# Sets of bits: name by bit; no bit is "None".
MASKS: Final[dict[str, dict[int, str]]] = {
    "function-control": {1: "Inline", 2: "DontInline", 4: "Pure", 8: "Const"},
    "memory-access": {1: "Volatile", 2: "Aligned", 4: "Nontemporal"},
    "selection-control": {1: "Flatten", 2: "DontFlatten"},
    "loop-control": {1: "Unroll", 2: "DontUnroll", 4: "DependencyInfinite"},
}

ENUMERATIONS: Final[dict[str, dict[int, str]]] = {
    "source-language": _numbered("0: Unknown ESSL GLSL OpenCL_C OpenCL_CPP"),
    "addressing-model": _numbered("0: Logical Physical32 Physical64"),
    "memory-model": _numbered("0: Simple GLSL450 OpenCL"),
    "execution-model": _numbered("6: Kernel"),
    "execution-mode": _numbered(
        "17: LocalSize LocalSizeHint\n30: VecTypeHint ContractionOff\n35: SubgroupSize"
    ),
    "storage-class": _numbered(
        "0: UniformConstant Input Uniform Output Workgroup CrossWorkgroup Private Function Generic"
    ),
    "group-operation": _numbered("0: Reduce InclusiveScan ExclusiveScan ClusteredReduce"),
    "capability": _numbered(
        """4: Addresses Linkage Kernel Vector16 Float16Buffer Float16 Float64 Int64 Int64Atomics
        18: Groups
        22: Int16
        38: GenericPointer Int8
        58: SubgroupDispatch NamedBarrier
        61: GroupNonUniform GroupNonUniformVote GroupNonUniformArithmetic GroupNonUniformBallot
        65: GroupNonUniformShuffle GroupNonUniformShuffleRelative GroupNonUniformClustered
        5568: SubgroupShuffleINTEL SubgroupBufferBlockIOINTEL"""
    ),
    "decoration": _numbered(
        """11: BuiltIn
        19: Restrict Aliased Volatile Constant Coherent NonWritable NonReadable
        38: FuncParamAttr FPRoundingMode FPFastMathMode LinkageAttributes NoContraction
        44: Alignment MaxByteOffset"""
    ),
    "builtin": _numbered(
        """24: NumWorkgroups WorkgroupSize WorkgroupId LocalInvocationId GlobalInvocationId
        30: WorkDim GlobalSize EnqueuedWorkgroupSize GlobalOffset GlobalLinearId
        36: SubgroupSize SubgroupMaxSize NumSubgroups NumEnqueuedSubgroups SubgroupId
        41: SubgroupLocalInvocationId"""
    ),
    "linkage": _numbered("0: Export Import LinkOnceODR"),
    "parameter-attribute": _numbered(
        "0: Zext Sext ByVal Sret NoAlias NoCapture NoWrite NoReadWrite"
    ),
    # Of OpenCL.std.
    "extended-instruction": _numbered(
        """11: cbrt ceil copysign cos cosh
        17: erfc erf exp exp2 exp10 expm1 fabs fdim floor fma fmax fmin fmod fract frexp hypot ilogb ldexp
        37: log log2 log10 log1p logb mad
        47: nextafter pow pown powr remainder remquo rint rootn round rsqrt sin sincos sinh sinpi sqrt tan tanh
        66: trunc
        141: s_abs s_abs_diff s_add_sat u_add_sat s_hadd u_hadd s_rhadd u_rhadd s_clamp u_clamp clz ctz s_mad_hi
        154: u_mad_sat s_mad_sat s_max u_max s_min u_min s_mul_hi rotate s_sub_sat u_sub_sat
        166: popcount
        201: u_abs u_abs_diff u_mul_hi u_mad_hi"""
    ),
}
