"""Recordings of the engine of pods: what it heard and said, from which every decision can be made again.

recorder.py      the thread of a server that records: segments, checkpoints, what is deleted
waiting.py       events that wait to be written, between the engine and that thread
texts.py         the bytes of their offers, in memory that is used again
checkpointer.py  copies the running engine in pieces, and writes the copy beside everything else
retention.py     which old files are deleted, so that the rest can still be replayed
replaying.py     replays a recording on a fresh engine, and compares what it decides
cutting.py       a part of a recording as a file that replays by itself
log.py           opens folders, segments, cuts and files of format 1
checkpoint.py    the engine's state as lines, and where a replay can begin
encoding.py      headers, events and answers as lines
graph/           a graph of objects as lines, and back, without running anything
names.py         long lists of node names, written once
masks.py         secrets that are left out
lines.py, files.py    bounded reading; private, compressed writing
records.py, constants.py    headers, steps, gaps; what of a program its decisions depend on
"""
