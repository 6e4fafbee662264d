/* What the files that make a snapshot share. */
#ifndef WR_CONFIG_SNAPSHOT_INTERNAL_H
#define WR_CONFIG_SNAPSHOT_INTERNAL_H

#include <stdatomic.h>

#include "base/arena.h"
#include "config/model.h"
#include "config/snapshot.h"

/* A snapshot with the memory and the TLS contexts it holds. */
struct wr_snapshot_owned {
    struct wr_snapshot snapshot;
    const struct wr_model *model; /* in the arena */
    atomic_uint references;
    struct wr_arena arena;
    struct wr_snapshot_listener *listeners; /* as many as the snapshot says */
    struct wr_cluster_options *clusters;
};

/* Each fills its part of OWNED from MODEL and notes what is wrong between keys. */
void wr_snapshot_build_listeners(struct wr_snapshot_owned *owned, struct wr_errors *errors,
                                 const struct wr_model *model);
void wr_snapshot_build_clusters(struct wr_snapshot_owned *owned, struct wr_errors *errors,
                                const struct wr_model *model);

void wr_snapshot_build_routes(struct wr_snapshot_owned *owned, struct wr_errors *errors,
                              const struct wr_model *model,
                              const struct wr_model_listener *listener,
                              struct wr_route_table *table);
/* HAS_CRITICAL: some requests are, so that slots are kept for them. */
struct wr_requests_options wr_snapshot_requests(struct wr_errors *errors,
                                                const struct wr_model_requests *from,
                                                bool has_critical);
/* One of ROUTES is: of those to *CLUSTER only, unless that is NULL. */
bool wr_snapshot_has_critical(const struct wr_model_list *routes, const struct wr_str *cluster);
struct wr_rate wr_snapshot_rate(const struct wr_model_rate *from);

/* TO has WR_FLOOD__COUNT elements. */
void wr_snapshot_budgets(const struct wr_model_budgets *from, struct wr_h2_budget *to);

/* UINT64_MAX (infinity) and what is larger become UINT32_MAX. */
static inline uint32_t wr_snapshot_u32(uint64_t value)
{
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

#endif
