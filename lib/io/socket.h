/* Sockets and addresses. All sockets are non-blocking and close-on-exec. */
#ifndef WR_IO_SOCKET_H
#define WR_IO_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "base/err.h"
#include "base/str.h"

struct wr_address {
    socklen_t length;
    struct sockaddr_storage storage;
};

/* The address of a peer, in little; of a unix socket only that it is one. */
struct wr_peer {
    uint8_t bytes[16];
    uint32_t scope;
    uint16_t family;
    uint16_t port; /* as on the wire */
};
struct wr_peer wr_address_pack(const struct wr_address *address);
void wr_address_unpack(const struct wr_peer *peer, struct wr_address *out);

/* "127.0.0.1:80", "[::1]:80", "unix:/path". Numeric only. */
WR_MUST_USE enum wr_err wr_address_parse(struct wr_str text, struct wr_address *out);
/* As proxies write the address of a client: "192.0.2.1", "2001:db8::1", "[2001:db8::1]", or with a port as above. No unix sockets. */
WR_MUST_USE enum wr_err wr_address_parse_host(struct wr_str text, struct wr_address *out);
/* Resolves HOST with the system's resolver; blocks: only while a configuration is loaded. At most MAX addresses. */
WR_MUST_USE enum wr_err wr_address_resolve(const char *host, uint16_t port, struct wr_address *out,
                                           size_t max, size_t *count);

#define WR_ADDRESS_TEXT 128
/* As wr_address_parse() reads it; the host alone with HOST_ONLY ("127.0.0.1", "::1", "unix:"). Returns OUT as a slice. */
struct wr_str wr_address_text(const struct wr_address *address, bool host_only,
                              char out[WR_ADDRESS_TEXT]);
uint16_t wr_address_port(const struct wr_address *address);    /* 0 for unix */
bool wr_address_is_loopback(const struct wr_address *address); /* unix counts as loopback */

/* The network of ADDRESS, by its leading bits (1 to 32, 1 to 64), as a word: what counts as one source. An IPv4-mapped address is one of
 * IPv4; all unix sockets are one. */
uint64_t wr_address_network(const struct wr_address *address, unsigned ipv4_bits,
                            unsigned ipv6_bits);

/* A block of addresses, "10.0.0.0/8", "::1/128", "192.0.2.1". */
struct wr_cidr {
    sa_family_t family;
    uint8_t bits;
    uint8_t bytes[16];
};
WR_MUST_USE enum wr_err wr_cidr_parse(struct wr_str text, struct wr_cidr *out);
/* An IPv4-mapped IPv6 address is looked up as IPv4. */
bool wr_cidr_contains(const struct wr_cidr *cidr, const struct wr_address *address);
bool wr_cidr_list_contains(const struct wr_cidr *list, size_t count,
                           const struct wr_address *address);

struct wr_listen_options {
    int backlog;     /* 0: 1024 */
    bool reuse_port; /* SO_REUSEPORT; not for unix sockets */
};
/* Owner of *FD: the caller. A stale unix socket file is replaced; an IPv6 socket takes IPv6 only. errno tells why not. */
WR_MUST_USE enum wr_err wr_socket_listen(const struct wr_address *address,
                                         const struct wr_listen_options *options, int *fd);
/* From now on the kernel answers attempts to connect to a listening TCP socket by RST; who is in its queue is reset. Nobody else can
 * listen there meanwhile, but for a kernel-chosen port, which is given up. Not for unix sockets. */
WR_MUST_USE enum wr_err wr_socket_shut(int fd);
/* Listens again, on ADDRESS, its own from before. errno tells why not. */
WR_MUST_USE enum wr_err wr_socket_reopen(int fd, const struct wr_address *address, int backlog);
/* Starts to connect; *FD is the caller's. CONNECT_REFUSED, CONNECT_FAILED or NO_DESCRIPTORS when it fails at once. */
WR_MUST_USE enum wr_err wr_socket_connect(const struct wr_address *address, int *fd);
/* What became of a connect that was in progress (SO_ERROR). */
WR_MUST_USE enum wr_err wr_socket_connect_result(int fd);

/* Closes with RST: SO_LINGER 0. */
void wr_socket_reset(int fd);
/* True when the peer has sent nothing and not closed: a pooled connection may be handed out (recv MSG_PEEK). Takes the
 * error of a reset off the socket: after false, close it. */
bool wr_socket_is_quiet(int fd);
/* True when FIN or RST of the peer has arrived, read or not (TCP_INFO or poll RDHUP). */
bool wr_socket_peer_gone(int fd);
/* Connections waiting in the kernel's accept queue of a listening socket, and its limit (TCP_INFO). */
void wr_socket_accept_queue(int fd, unsigned *length, unsigned *limit);
/* Connections that a listening socket's queue had no room for, ever: the kernel drops them and clients try again (SO_MEMINFO). */
uint64_t wr_socket_accept_drops(int fd);
/* Microseconds, in whole milliseconds, since a connected socket last received something, its connection included (TCP_INFO). */
uint64_t wr_socket_silence(int fd);

#endif
