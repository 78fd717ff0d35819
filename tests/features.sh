# Every feature but `aedb`, for cargo's --features. Not --all-features: AEDB takes minutes to build, so what needs it has a job of its
# own, tests/aedb. A test keeps this list complete.
FEATURES=aedb-queue/postgres,aedb-tests/postgres,aedb-worker/collect,aedb-worker/lock,aedb-worker/macros,aedb-worker/metrics,aedb-worker/postgres,aedb-worker/simulation
