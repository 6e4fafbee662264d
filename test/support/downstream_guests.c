#include "support/downstream_guests.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/bio.h>
#include <openssl/ssl.h>

size_t client_make_hello(const char *alpn, uint8_t *out, size_t room)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    cr_assert_eq(SSL_CTX_set_alpn_protos(context, (const uint8_t *)alpn, (unsigned)strlen(alpn)),
                 0);
    SSL *ssl = SSL_new(context);
    BIO *to_server = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), to_server);
    SSL_set_tlsext_host_name(ssl, "localhost");
    (void)SSL_connect(ssl);
    int n = BIO_read(to_server, out, (int)room);
    cr_assert_gt(n, 100);
    SSL_free(ssl);
    SSL_CTX_free(context);
    return (size_t)n;
}

void client_send(struct client *client, const void *p, size_t n)
{
    cr_assert_eq(send(client->fd, p, n, MSG_NOSIGNAL), (ssize_t)n);
}

void client_say_hello(struct client *client)
{
    uint8_t hello[2048];
    client_send(client, hello, client_make_hello("\x08http/1.1", hello, sizeof(hello)));
}

bool client_was_reset(struct client *client)
{
    client_look(client);
    return client->broken;
}

struct client *world_come_silent(struct world *world)
{
    struct client *client = world_connect_bare(world);
    world_settle(world);
    return client;
}

struct client *world_come_and_stall(struct world *world)
{
    struct client *client = world_connect_bare(world);
    client_say_hello(client);
    world_settle(world);
    return client;
}

struct client *world_come_and_be_served(struct world *world)
{
    struct client *client = world_connect(world);
    world_until(world, &client->established);
    world_settle(world);
    return client;
}
