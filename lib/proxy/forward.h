/* What is changed in a head on its way through, in either direction: the one place of forwarding policy.
 *
 * Requests: connection-specific fields and those that Connection nominates go; Via, X-Forwarded-For, -Proto, -Host and
 * X-Request-Id are set, what a peer that is not trusted says about them is not believed. Responses: connection-specific
 * fields go, Via is added. RFC 9110 section 7.6. Of a tunnel the codecs write what makes it one, from `tunnel` and `protocol`. */
#ifndef WR_PROXY_FORWARD_H
#define WR_PROXY_FORWARD_H

#include "base/err.h"
#include "http/exchange.h"
#include "proxy/proxy.h"
#include "proxy/request_id.h"

struct wr_forward {
    const struct wr_forward_options *options;
    char *via_text;       /* owned: what `via` points into */
    struct wr_str via[3]; /* as "1.0 weir", "1.1 weir", "2.0 weir" */
    struct wr_request_ids ids;
};

/* OPTIONS outlive FORWARD. */
void wr_forward_init(struct wr_forward *forward, const struct wr_forward_options *options);
void wr_forward_clear(struct wr_forward *forward);

/* Edits the head of the request of EXCHANGE, once, however often it is then sent (behaviour row 63). Sets request_id and
 * forwarded_for of EXCHANGE. BAD_REQUEST: nominates more fields than a head has room for. */
WR_MUST_USE enum wr_err wr_forward_request(struct wr_forward *forward,
                                           struct wr_exchange *exchange);

/* The address of who sent the request, as far as it can be believed: of the peer, or, behind trusted peers, the last one in
 * X-Forwarded-For that is not trusted. Before wr_forward_request(). */
void wr_forward_client(const struct wr_forward *forward, const struct wr_exchange *exchange,
                       struct wr_address *out);

/* Edits a head of the response, an interim one too. BAD_RESPONSE as above. */
WR_MUST_USE enum wr_err wr_forward_response(struct wr_forward *forward,
                                            struct wr_exchange *exchange, struct wr_head *head);

#endif
