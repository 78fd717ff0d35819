# Sourced by tests/run and by hand: a PostgreSQL server to throw away, with fsync on.
#
#   source tests/postgres.sh && start_postgres   # exports AEDB_POSTGRES; stop_postgres removes it all
#
# AEDB_POSTGRES may name a server of your own instead; then nothing is started.

find_postgres() {
  local found
  for found in "${AEDB_POSTGRES_BIN:-}" /usr/lib/postgresql/*/bin /usr/local/pgsql/bin /opt/homebrew/opt/postgresql*/bin; do
    if [ -x "$found/initdb" ]; then echo "$found"; return; fi
  done
  dirname "$(command -v initdb 2>/dev/null)" 2>/dev/null || true
}

# PostgreSQL refuses to run as root.
as_postgres() {
  if [ "$(id -u)" = 0 ]; then (cd / && setpriv --reuid=postgres --regid=postgres --init-groups "$@"); else "$@"; fi
}

start_postgres() {
  local bin port
  bin=$(find_postgres)
  # Some tests start servers of their own.
  if [ -n "${AEDB_POSTGRES:-}" ]; then export AEDB_POSTGRES_BIN=$bin; return; fi
  if [ -z "$bin" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq postgresql >/dev/null && bin=$(find_postgres)
  fi
  if [ -z "$bin" ]; then
    echo "tests: PostgreSQL 15 or newer is missing: install it (Debian: apt-get install postgresql), or set AEDB_POSTGRES" >&2
    return 1
  fi
  AEDB_POSTGRES_BIN=$bin
  AEDB_POSTGRES_DIR=$(mktemp -d)
  if [ "$(id -u)" = 0 ]; then chown postgres "$AEDB_POSTGRES_DIR"; fi
  as_postgres "$bin/initdb" -D "$AEDB_POSTGRES_DIR/data" -U aedb -A trust -E UTF8 --no-locale >/dev/null
  for _ in 1 2 3 4 5; do
    port=$((20000 + RANDOM % 20000))
    if as_postgres "$bin/pg_ctl" -D "$AEDB_POSTGRES_DIR/data" -l "$AEDB_POSTGRES_DIR/log" -w -t 60 \
      -o "-p $port -h 127.0.0.1 -k $AEDB_POSTGRES_DIR -c fsync=on -c max_connections=200" start >/dev/null; then
      export AEDB_POSTGRES="postgres://aedb@127.0.0.1:$port/postgres"
      export AEDB_POSTGRES_DIR AEDB_POSTGRES_BIN
      return
    fi
  done
  echo "tests: PostgreSQL does not start, see $AEDB_POSTGRES_DIR/log" >&2
  return 1
}

stop_postgres() {
  if [ -n "${AEDB_POSTGRES_DIR:-}" ]; then
    as_postgres "$AEDB_POSTGRES_BIN/pg_ctl" -D "$AEDB_POSTGRES_DIR/data" -m immediate stop >/dev/null || true
    rm -rf "$AEDB_POSTGRES_DIR"
    unset AEDB_POSTGRES AEDB_POSTGRES_DIR
  fi
}
