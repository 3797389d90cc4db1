/* SPDX-License-Identifier: MIT */
/* tool/cli/view_page.c - writes the page of src/view with a pack in it: gzipped, in base64, inside a script element. */
#include "tool/cli/view_page.h"

#include "base/text.h"
#include "view/page.h"

#include <errno.h>

/* Makes base64 of a stream of bytes: what is left of three bytes waits for the next. */
struct base64 {
    struct dp_cli_out *out;
    uint8_t left[3];
    size_t n_left;
};

static int put_base64(void *ctx, const void *bytes, size_t n_bytes)
{
    struct base64 *b = ctx;
    const uint8_t *at = bytes;
    char text[4096];
    size_t n_text = 0;
    int err = 0;
    while (n_bytes && !err) {
        b->left[b->n_left++] = *at++;
        n_bytes--;
        if (b->n_left < 3)
            continue;
        n_text += dp_text_base64(text + n_text, b->left, sizeof b->left);
        b->n_left = 0;
        if (n_text == sizeof text) {
            err = dp_cli_out_write(b->out, text, n_text);
            n_text = 0;
        }
    }
    return err || !n_text ? err : dp_cli_out_write(b->out, text, n_text);
}

static int finish_base64(struct base64 *b)
{
    char text[4];
    size_t n_text = dp_text_base64(text, b->left, b->n_left);
    return n_text ? dp_cli_out_write(b->out, text, n_text) : 0;
}

int dp_cli_view_page(struct dp_pack *pack, struct dp_cli_out *out)
{
    static const char begin[] = "<script type=\"application/octet-stream\">", end[] = "</script>\n";
    struct base64 base64 = {.out = out};
    int err = dp_cli_out_write(out, dp_view_page_before, dp_view_page_before_bytes);
    struct dp_gzip *gzip = err ? NULL : dp_gzip_new(put_base64, &base64);
    if (!err && !gzip)
        err = -ENOMEM;
    if (err || (err = dp_cli_out_write(out, begin, sizeof begin - 1)) ||
        (err = dp_pack_write(pack, dp_gzip_write, gzip)) || (err = dp_gzip_finish(gzip)) ||
        (err = finish_base64(&base64)) || (err = dp_cli_out_write(out, end, sizeof end - 1)))
        goto out;
    err = dp_cli_out_write(out, dp_view_page_after, dp_view_page_after_bytes);
out:
    dp_gzip_free(gzip);
    return err;
}
