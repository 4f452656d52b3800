# To be sourced: where vllm-neuron keeps what it compiles, below DIRECTORY and in the bucket.
# Sources: vllm_neuron/compile/cache.py (_is_cache_complete, _store_local) and nki/nki_cache.py of
# version 0.21; the page "Compilation Cache" of aws-neuron-sdk, folder vllm-neuron, of 2.32.
# VLLM_CACHE_ROOT is DIRECTORY/vllm. Locks lie beside the graphs' folders and never travel.
shopt -s nullglob dotglob
# A folder for each graph, named by its hash. The last file written into it is the sentinel.
GRAPHS=vllm/neuron/compile_cache
SENTINEL=.compilation_complete
# Among the graphs: a file for each kernel, written aside and then renamed.
RECORDS=nki
# The kernels that records and graphs name, which the image looks for at a path of its own.
KERNELS=nki
