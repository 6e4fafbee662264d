#include "transport/hello.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/bytestring.h>
#include <openssl/ssl.h>

#include "transport/tls_internal.h"

#define RECORD_HEADER 5U
#define MESSAGE_HEADER 4U
/* A hello of today with a post-quantum key share and a ticket has 2 KB. */
#define PEEKED 4096

/* ---- records ---- */

static size_t message_length(const struct wr_hello_progress *progress)
{
    return MESSAGE_HEADER + (progress->head & 0xffffff);
}

static enum wr_hello_result judge_message(const struct wr_hello_progress *progress)
{
    if (progress->message == 0)
        return WR_HELLO_NEED_MORE;
    bool headed = progress->message >= MESSAGE_HEADER;
    uint32_t seen = headed ? MESSAGE_HEADER : progress->message;
    if (progress->head >> (8 * (seen - 1)) != SSL3_MT_CLIENT_HELLO)
        return WR_HELLO_MALFORMED;
    if (!headed)
        return WR_HELLO_NEED_MORE;
    if (message_length(progress) > WR_HELLO_MESSAGE_MOST)
        return WR_HELLO_MALFORMED;
    return progress->message >= message_length(progress) ? WR_HELLO_WHOLE : WR_HELLO_NEED_MORE;
}

/* WHOLE: *FRAGMENT is the content of the record at the begin of REST. */
static enum wr_hello_result read_record(CBS *rest, bool first, CBS *fragment)
{
    uint8_t type;
    uint8_t major;
    uint8_t minor;
    uint16_t length;
    if (!CBS_get_u8(rest, &type))
        return WR_HELLO_NEED_MORE;
    if (type != SSL3_RT_HANDSHAKE)
        return first ? WR_HELLO_NOT_TLS : WR_HELLO_MALFORMED;
    if (!CBS_get_u8(rest, &major))
        return WR_HELLO_NEED_MORE;
    if (major != SSL3_VERSION_MAJOR)
        return WR_HELLO_MALFORMED;
    if (!CBS_get_u8(rest, &minor) || !CBS_get_u16(rest, &length))
        return WR_HELLO_NEED_MORE;
    if (length == 0 || length > SSL3_RT_MAX_PLAIN_LENGTH)
        return WR_HELLO_MALFORMED;
    return CBS_get_bytes(rest, fragment, length) ? WR_HELLO_WHOLE : WR_HELLO_NEED_MORE;
}

static void count_fragment(struct wr_hello_progress *progress, const CBS *fragment)
{
    const uint8_t *p = CBS_data(fragment);
    size_t n = CBS_len(fragment);
    for (size_t i = 0; i < n && progress->message + i < MESSAGE_HEADER; i++)
        progress->head = progress->head << 8 | p[i];
    progress->message += (uint32_t)n;
    progress->wire += RECORD_HEADER + (uint32_t)n;
}

static enum wr_hello_result read_records(struct wr_hello_progress *progress, const uint8_t *p,
                                         size_t n)
{
    enum wr_hello_result result = judge_message(progress);
    while (result == WR_HELLO_NEED_MORE) {
        CBS rest;
        CBS fragment;
        if (progress->wire > WR_HELLO_WIRE_MOST)
            return WR_HELLO_MALFORMED;
        CBS_init(&rest, p + progress->wire, n - progress->wire);
        result = read_record(&rest, progress->wire == 0, &fragment);
        if (result != WR_HELLO_WHOLE)
            return result;
        count_fragment(progress, &fragment);
        result = judge_message(progress);
    }
    return result;
}

/* The N bytes of the message in one piece. */
static CBS gather(const uint8_t *p, uint8_t *scratch, size_t n)
{
    CBS message;
    size_t record = (size_t)p[3] << 8 | p[4];
    CBS_init(&message, p + RECORD_HEADER, n);
    if (record >= n)
        return message;
    CBS_init(&message, scratch, n);
    for (size_t have = 0; have < n; p += RECORD_HEADER + record) {
        record = (size_t)p[3] << 8 | p[4];
        size_t part = record < n - have ? record : n - have;
        memcpy(scratch + have, p + RECORD_HEADER, part);
        have += part;
    }
    return message;
}

/* ---- the message ---- */

/* The rules of RFC 6066 section 3, as the library holds them. */
static bool read_name(CBS content, struct wr_str *name)
{
    CBS list;
    CBS host;
    uint8_t type;
    if (!CBS_get_u16_length_prefixed(&content, &list) || CBS_len(&content) > 0 ||
        !CBS_get_u8(&list, &type) || type != TLSEXT_NAMETYPE_host_name ||
        !CBS_get_u16_length_prefixed(&list, &host) || CBS_len(&list) > 0)
        return false;
    *name = wr_str((const char *)CBS_data(&host), CBS_len(&host));
    return name->n > 0 && name->n <= TLSEXT_MAXLEN_host_name && !CBS_contains_zero_byte(&host);
}

static struct wr_str read_protocols(CBS content)
{
    CBS list;
    if (!CBS_get_u16_length_prefixed(&content, &list) || CBS_len(&content) > 0 ||
        CBS_len(&list) == 0)
        return WR_STR_EMPTY; /* the library has an answer to what is malformed */
    return wr_str((const char *)CBS_data(&list), CBS_len(&list));
}

static bool read_extension(uint16_t type, const CBS *content, struct wr_client_hello *out)
{
    switch (type) {
    case TLSEXT_TYPE_server_name:
        return read_name(*content, &out->sni);
    case TLSEXT_TYPE_application_layer_protocol_negotiation:
        out->alpn = read_protocols(*content);
        break;
    case TLSEXT_TYPE_session_ticket: /* an empty one only asks for one (RFC 5077 section 3.2) */
        out->claims_resumption = out->claims_resumption || CBS_len(content) > 0;
        break;
    case TLSEXT_TYPE_pre_shared_key:
        out->claims_resumption = true;
        break;
    default:
        break;
    }
    return true;
}

/* RFC 8446 section 4.1.2. */
static bool read_message(CBS message, struct wr_client_hello *out)
{
    CBS session;
    CBS suites;
    CBS compression;
    CBS extensions;
    if (!CBS_skip(&message, MESSAGE_HEADER + 2 + SSL3_RANDOM_SIZE) ||
        !CBS_get_u8_length_prefixed(&message, &session) ||
        CBS_len(&session) > SSL_MAX_SSL_SESSION_ID_LENGTH ||
        !CBS_get_u16_length_prefixed(&message, &suites) || CBS_len(&suites) == 0 ||
        CBS_len(&suites) % 2 != 0 || !CBS_get_u8_length_prefixed(&message, &compression) ||
        CBS_len(&compression) == 0)
        return false;
    if (CBS_len(&message) == 0) /* TLS 1.2 knows hellos without any */
        return true;
    if (!CBS_get_u16_length_prefixed(&message, &extensions) || CBS_len(&message) > 0)
        return false;
    while (CBS_len(&extensions) > 0) {
        uint16_t type;
        CBS content;
        if (!CBS_get_u16(&extensions, &type) ||
            !CBS_get_u16_length_prefixed(&extensions, &content) ||
            !read_extension(type, &content, out))
            return false;
    }
    return true;
}

static const struct wr_client_hello nothing = {.sni = {"", 0}, .alpn = {"", 0}};

enum wr_hello_result wr_hello_read(struct wr_hello_progress *progress, const uint8_t *p, size_t n,
                                   uint8_t *scratch, struct wr_client_hello *out)
{
    *out = nothing;
    enum wr_hello_result result = read_records(progress, p, n);
    if (result != WR_HELLO_WHOLE)
        return result;
    if (read_message(gather(p, scratch, message_length(progress)), out))
        return WR_HELLO_WHOLE;
    *out = nothing;
    return WR_HELLO_MALFORMED;
}

/* ---- on a socket ---- */

enum wr_hello_claim wr_hello_peek(int fd, const struct wr_tls_server *tls, bool *unread)
{
    uint8_t bytes[PEEKED];
    uint8_t scratch[PEEKED];
    struct wr_hello_progress progress = {0};
    struct wr_client_hello hello;
    ssize_t n;
    do
        n = recv(fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    *unread = n > 0;
    if (n <= 0)
        return WR_CLAIM_UNKNOWN;
    switch (wr_hello_read(&progress, bytes, (size_t)n, scratch, &hello)) {
    case WR_HELLO_NEED_MORE:
        return WR_CLAIM_UNKNOWN;
    case WR_HELLO_NOT_TLS:
        return WR_CLAIM_NOT_TLS;
    case WR_HELLO_WHOLE:
    case WR_HELLO_MALFORMED:
        break;
    }
    return hello.claims_resumption && wr_tls_server_resumes(tls) ? WR_CLAIM_RESUME : WR_CLAIM_FULL;
}
