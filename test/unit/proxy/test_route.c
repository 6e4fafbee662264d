#include <criterion/criterion.h>

#include "proxy/route.h"

static struct wr_route routes[8];
static struct wr_route_table table = {.routes = routes};

static void add(const char *name, const char *host, const char *path)
{
    routes[table.count++] =
        (struct wr_route){.name = name, .host = wr_str_from(host), .path = wr_str_from(path)};
}

static const char *find(const char *authority, const char *path)
{
    struct wr_head head;
    wr_head_init(&head);
    head.authority = wr_str_from(authority);
    head.path = wr_str_from(path);
    const struct wr_route *route = wr_route_find(&table, &head);
    return route != NULL ? route->name : "none";
}

Test(route, the_first_that_matches_wins)
{
    add("a", "", "/a");
    add("b", "", "/a/b");
    add("rest", "", "");
    cr_assert_str_eq(find("x", "/a/b"), "a");
    cr_assert_str_eq(find("x", "/b"), "rest");
}

Test(route, nothing_matches_an_empty_table)
{
    cr_assert_str_eq(find("x", "/"), "none");
}

Test(route, a_host_is_compared_whole_in_any_case_without_port_and_root_dot)
{
    add("www", "www.example.com", "");
    cr_assert_str_eq(find("www.example.com", "/"), "www");
    cr_assert_str_eq(find("www.example.com:8443", "/"), "www");
    cr_assert_str_eq(find("WWW.Example.COM", "/"), "www");
    cr_assert_str_eq(find("www.example.com.", "/"), "www");
    cr_assert_str_eq(find("www.example.com.:443", "/"), "www");
    cr_assert_str_eq(find("www.example.com..", "/"), "none");
    cr_assert_str_eq(find("wwww.example.com", "/"), "none");
    cr_assert_str_eq(find("www.example.co", "/"), "none");
    cr_assert_str_eq(find("example.com", "/"), "none");
    cr_assert_str_eq(find("", "/"), "none");
}

Test(route, a_wildcard_stands_for_one_label_or_more)
{
    add("wild", "*.example.com", "");
    cr_assert_str_eq(find("a.example.com", "/"), "wild");
    cr_assert_str_eq(find("a.b.EXAMPLE.com:80", "/"), "wild");
    cr_assert_str_eq(find("example.com", "/"), "none");
    cr_assert_str_eq(find(".example.com", "/"), "none");
    cr_assert_str_eq(find("badexample.com", "/"), "none");
    cr_assert_str_eq(find("a.example.com.evil", "/"), "none");
}

Test(route, an_address_is_a_host_too)
{
    add("six", "[::1]", "");
    add("four", "127.0.0.1", "");
    cr_assert_str_eq(find("[::1]:8080", "/"), "six");
    cr_assert_str_eq(find("127.0.0.1:1", "/"), "four");
}

Test(route, a_prefix_ends_where_a_segment_ends)
{
    add("api", "", "/api");
    cr_assert_str_eq(find("x", "/api"), "api");
    cr_assert_str_eq(find("x", "/api/"), "api");
    cr_assert_str_eq(find("x", "/api/x"), "api");
    cr_assert_str_eq(find("x", "/api?x"), "api");
    cr_assert_str_eq(find("x", "/apix"), "none");
    cr_assert_str_eq(find("x", "/ap"), "none");
    cr_assert_str_eq(find("x", "/Api"), "none");
    cr_assert_str_eq(find("x", "/x?/api"), "none");
    cr_assert_str_eq(find("x", "/api;x"), "none");
}

Test(route, a_prefix_with_a_slash_wants_the_slash)
{
    add("api", "", "/api/");
    cr_assert_str_eq(find("x", "/api/"), "api");
    cr_assert_str_eq(find("x", "/api/x?y"), "api");
    cr_assert_str_eq(find("x", "/api"), "none");
    cr_assert_str_eq(find("x", "/api?x=/api/"), "none");
}

Test(route, the_whole_server_matches_routes_for_any_path)
{
    add("api", "", "/api");
    add("root", "", "/");
    cr_assert_str_eq(find("x", "*"), "root");
}

Test(route, host_and_path_must_both_match)
{
    add("both", "a.example", "/x");
    cr_assert_str_eq(find("a.example", "/x"), "both");
    cr_assert_str_eq(find("b.example", "/x"), "none");
    cr_assert_str_eq(find("a.example", "/y"), "none");
}
