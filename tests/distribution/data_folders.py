"""Folders of clients' files for tests."""

import os

import numpy as np


def write(test, files):
  """Writes text or arrays by path into a new folder, which ends with the test; returns it.

  Args:
    test: The test.
    files: A mapping from path in the folder to text, or to an array of an .npy file.
  """
  folder = test.create_tempdir().full_path
  for name, content in files.items():
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if isinstance(content, np.ndarray):
      np.save(path, content)
    else:
      with open(path, "w", encoding="utf-8") as file:
        file.write(content)
  return folder
