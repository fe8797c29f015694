"""A graph of Python objects as lines of JSON, and back: how the state of an engine gets into a checkpoint.

    lines = writing.encode(root, Kinds(packages))    JSON texts, a few hundred objects each
    root = reading.decode(lines, Kinds(packages))    an equal graph: the same classes, references shared as before

An object is written once, and is a number wherever it is referred to, so cycles and shared references come back as they
were. The order of dictionaries and lists is kept.

Reading is safe. A log comes from somebody else, so nothing in it can run anything:

* a class or a function is named, and only taken from the packages in `Kinds`: those of the engine and of the algorithm;
* an instance is made without its constructor and gets the attributes that were written; msgspec's structs, whose
  constructor only sets fields, are made by it unless they have a `__post_init__`;
* an attribute may not have the name of a method or a property of its class, and a method must be written in these
  packages: a method that is inherited from a library could read a file;
* nothing is converted, iterated over or hashed unless its size is known: there are bounds for objects, values, texts,
  classes, the length of a line, and the parts of keys, each counted as often as it is referred to.

It is safe to read, not to trust: what is read is used by code of these packages, which may call a function of theirs in
place of another, run for ever or use all memory if the state is none that it could have made.

What cannot be written (a lock, a thread, a file, a lambda, a class of another package) is a GraphError that says where
it hangs. `secrets`: texts that are masked wherever they stand (`masks.py`).

The format is that of one program: another release may have other classes. What differs is named by GraphError.
"""
