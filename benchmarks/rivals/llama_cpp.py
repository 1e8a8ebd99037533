"""A model of Llama's kind as llama.cpp's users have it: a GGUF file with blocks of 32 weights that share a scale."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from .llama import Llama

BLOCK: Final = 32  # weights that share a scale, along the terms of a sum
# The matrices of a layer, in the order of language.Llama.matrices; a norm stands before the first and the fifth.
NAMES: Final = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
NORMS: Final = {0: "attn_norm", 4: "ffn_norm"}


def blocks(values: Any, scales: Any, bits: int) -> np.ndarray:
    """Bytes of Q8_0 or Q4_0: for each 32 of the whole numbers ``[rows, terms]`` their scale in f16, and them.

    ``scales``: ``[rows, terms / 32]``. Number i of a block of four bits is the lower half of byte i, number i + 16
    the upper one.
    """
    rows, terms = values.shape
    parts = np.asarray(values).astype(np.int8).reshape(rows, terms // BLOCK, BLOCK)
    if bits == 4:
        halves = (parts + 8).astype(np.uint8)
        packed = halves[..., : BLOCK // 2] | halves[..., BLOCK // 2 :] << 4
    else:
        packed = parts.view(np.uint8)
    heads = np.ascontiguousarray(scales.astype(np.float16))[..., None].view(np.uint8)
    return np.concatenate([heads, packed], -1).reshape(rows, -1)


def interleaved(rows: Any, heads: int) -> Any:
    """The rows of a matrix of queries or keys in the order of llama.cpp, which rotates neighbours and not halves."""
    halves = rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def write(path: Path, model: Llama, form: str, length: int, arrays: Sequence[Any]) -> None:
    """The file of the weights of ``language.weights``."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(model.layers)
    writer.add_context_length(length)
    writer.add_embedding_length(model.width)
    writer.add_feed_forward_length(model.wide)
    writer.add_head_count(model.heads)
    writer.add_head_count_kv(model.shared)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(model.head)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(model.tokens)
    writer.add_tokenizer_model("no_vocab")
    types = gguf.GGMLQuantizationType
    take = iter(arrays)

    def add(name: str, array: Any) -> None:
        writer.add_tensor(f"{name}.weight", np.ascontiguousarray(array.astype(np.float32)))

    def add_rows(name: str, rows: Any, scales: Any, bits: int) -> None:
        """``rows``: ``[columns, terms]`` of the product."""
        if scales is not None:
            quantised = types.Q4_0 if bits == 4 else types.Q8_0
            writer.add_tensor(f"{name}.weight", blocks(rows, scales, bits), raw_dtype=quantised)
        elif form == "bf16":
            data = np.ascontiguousarray(rows).view(np.uint8)
            writer.add_tensor(f"{name}.weight", data, raw_dtype=types.BF16)
        else:
            add(name, rows)

    def add_table() -> None:
        table = next(take)
        scales = next(take) if form in ("s8", "s4") else None
        if scales is not None:
            scales = np.repeat(scales[:, None], model.width // BLOCK, 1)
        add_rows("token_embd", table, scales, 8)

    def add_matrix(name: str, heads: int, terms: int) -> None:
        rows = next(take).T
        scales = next(take).T if form in ("s8", "s4") else None
        if form == "s8":
            scales = np.repeat(scales[:, None], terms // BLOCK, 1)
        if heads:
            rows = interleaved(rows, heads)
            scales = None if scales is None else interleaved(scales, heads)
        add_rows(name, rows, scales, 4 if form == "s4" else 8)

    add_table()
    for layer in range(model.layers):
        for index, (terms, _) in enumerate(model.matrices()):
            if index in NORMS:
                add(f"blk.{layer}.{NORMS[index]}", next(take))
            heads = {0: model.heads, 1: model.shared}.get(index, 0)
            add_matrix(f"blk.{layer}.{NAMES[index]}", heads, terms)
    add("output_norm", next(take))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def steps(model: Llama, form: str, start: int, length: int) -> Callable[..., Any]:
    """Feeds ``start`` tokens at the first call, and the others one after another; returns the last scores."""
    import llama_cpp

    loaded: list[Any] = []

    def load(tokens: Any, arrays: Sequence[Any]) -> Any:
        threads = int(os.environ["OMP_NUM_THREADS"])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.gguf"
            write(path, model, form, length, arrays)
            # Keys and values are f16 unless they are asked for in f32, as the others have them beside f32.
            cached = llama_cpp.GGML_TYPE_F32 if form == "f32" else llama_cpp.GGML_TYPE_F16
            llama = llama_cpp.Llama(
                str(path), n_ctx=length, n_threads=threads, n_threads_batch=threads, use_mmap=False, verbose=False,
                type_k=cached, type_v=cached,
            )  # fmt: skip
        llama.eval(tokens[:start].tolist())
        return llama

    def run(tokens: Any, *arrays: Any) -> Any:
        if not loaded:
            loaded.append(load(tokens, arrays))
        llama = loaded[0]
        llama.n_tokens = start
        for token in tokens[start:].tolist():
            llama.eval([token])
        scores = llama_cpp.llama_get_logits_ith(llama.ctx, -1)
        return np.ctypeslib.as_array(scores, (model.tokens,)).copy()

    return run
