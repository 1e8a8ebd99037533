"""References from outside that two threads give back at the same time: each takes one that is there, or none.

Python's threads call one after another, so the threads are those of a small library in C. A count that is checked
first and lowered afterwards goes below zero soon, if the threads run at the same time.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from .c_api import Api
from .host import Client

_SOURCE = """
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

typedef struct { size_t size; void* extension; void* value; } Args;
typedef void* (*Call)(Args*);

static Call increase, decrease;
static void (*destroy_error)(Args*);
static Args of_buffer;
static size_t error_size;
static atomic_int ended;
static atomic_long others; /* references that the other thread has given back */

static int GiveBack(void) {
  Args args = of_buffer;
  void* error = decrease(&args);
  if (error == NULL) return 1;
  Args to_destroy = {error_size, NULL, error};
  destroy_error(&to_destroy);
  return 0;
}

static void* Other(void* nothing) {
  while (!atomic_load(&ended)) atomic_fetch_add(&others, GiveBack());
  return nothing;
}

/* Takes references until the other thread has given back `wanted` of them, or `most` were taken. Returns how many more
   were given back than taken: 0 if none was given back twice. */
long Race(Call take, Call give_back, void (*destroy)(Args*), size_t size, void* buffer,
          size_t size_of_error, long wanted, long most) {
  pthread_t thread;
  long taken = 0, given_back = 0;
  increase = take;
  decrease = give_back;
  destroy_error = destroy;
  of_buffer = (Args){size, NULL, buffer};
  error_size = size_of_error;
  atomic_store(&ended, 0);
  atomic_store(&others, 0);
  if (pthread_create(&thread, NULL, Other, NULL) != 0) return -1;
  while (taken < most && atomic_load(&others) < wanted) {
    Args args = of_buffer;
    if (increase(&args) != NULL) return -2;
    ++taken;
    given_back += GiveBack();
  }
  atomic_store(&ended, 1);
  pthread_join(thread, NULL);
  given_back += atomic_load(&others);
  while (given_back <= taken && GiveBack()) ++given_back;
  return given_back - taken;
}
"""
WANTED, MOST = 20_000, 20_000_000


def test_two_threads_give_references_back(api: Api, client: Client, tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    source, library = tmp_path / "race.c", tmp_path / "race.so"
    source.write_text(_SOURCE)
    command = [compiler, "-O1", "-shared", "-fPIC", "-pthread", "-o", library, source]
    subprocess.run(command, check=True, capture_output=True)
    race = ctypes.CDLL(str(library)).Race
    race.restype = ctypes.c_long
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    race.argtypes = [pointer, pointer, pointer, size, pointer, size, ctypes.c_long, ctypes.c_long]
    buffer = client.buffer(np.arange(1000, dtype=np.float32))
    used = client.bytes_in_use()
    too_many = race(
        api.pointer("PJRT_Buffer_IncreaseExternalReferenceCount"),
        api.pointer("PJRT_Buffer_DecreaseExternalReferenceCount"),
        api.pointer("PJRT_Error_Destroy"),
        api.header.full_size("PJRT_Buffer_IncreaseExternalReferenceCount_Args"),
        buffer,
        api.header.full_size("PJRT_Error_Destroy_Args"),
        WANTED,
        MOST,
    )
    assert too_many == 0
    api.call("PJRT_Buffer_Delete", buffer=buffer)  # nothing keeps the memory now
    assert client.bytes_in_use() < used
    client.destroy(buffer)
