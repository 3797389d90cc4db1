/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <string.h>

#include "base/text.h"
#include "base/hash.h"

/* "check" of the catalogue of CRC algorithms, CRC-32/ISO-HDLC. */
TEST(crc_of_digits_is_the_published_one)
{
    assert_int_equal(dp_hash_crc32(0, "123456789", 9), 0xcbf43926);
    assert_int_equal(dp_hash_crc32(dp_hash_crc32(0, "1234", 4), "56789", 5), 0xcbf43926);
    assert_int_equal(dp_hash_crc32(0, "", 0), 0);
    uint8_t all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (uint8_t)i;
    assert_int_equal(dp_hash_crc32(0, all, sizeof all), 0x29058c73); /* by zlib */
}

/* RFC 4648, section 10. */
TEST(base64_has_the_test_vectors_of_its_rfc)
{
    static const char *const texts[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
    static const char *const codes[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char to[16] = "";
        assert_int_equal(dp_text_base64(to, (const uint8_t *)texts[i], strlen(texts[i])), strlen(codes[i]));
        assert_string_equal(to, codes[i]);
    }
    char to[4];
    dp_text_base64(to, (const uint8_t *)"\xfb\xff\xbf", 3);
    assert_memory_equal(to, "+/+/", 4);
}

UNIT(NULL, NULL)
