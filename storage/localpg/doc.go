// Package localpg runs a private PostgreSQL server as a child process: for
// "fenceline up" where nothing is configured and no Docker is at hand, and for
// tests. The data stays in one folder and is the same after every start.
//
// Use it on one machine, for trying out, for a small installation and for
// tests. Do not use it where a PostgreSQL server is already run by somebody:
// set DATABASE_URL instead. Nothing here makes backups or replicas.
//
// The folder belongs to this package:
//
//	data/        the cluster; renamed into place only when initdb has finished
//	password     of the superuser, mode 0600; made before the cluster
//	port         the port of the last start, used again when it is free
//	lock         held, by the operating system, for as long as our process lives
//	server.log   what the server says; cut when it grows, one older part is kept
//
// # Who ends whom
//
// The server listens on 127.0.0.1 only, asks for a password, and is meant to end
// with the process that started it: on Linux the kernel asks it to shut down
// when we die, however we die. Elsewhere it goes on after a kill -9, and the next
// [Start] on the folder stops it. Two owners on one folder are kept apart by the
// lock; what the lock cannot see, a server whose owner is dead, is found by its
// postmaster.pid, and only a process that is proven to be a PostgreSQL server on
// this very folder is ever signalled.
//
// # Root
//
// initdb and postgres refuse to run as root. On Linux they then run in a user
// namespace as "nobody", which outside is still root but without its rights: the
// folder stays ours and may lie below a home of mode 0700. Where namespaces are
// denied (most containers) they run as the user postgres or nobody, and the
// folder is given to that user. A folder that already has another owner is served
// as that owner. On Windows an administrator's console is refused by PostgreSQL
// itself; use an ordinary one.
package localpg
