/* Writes the rows of orders_test.go with libxlsxwriter in constant memory:
 * libxlsxwriter FILE ROWS. The benchmark compares its CPU time with ours. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xlsxwriter.h>

static const char *names[] = {
    "Rahman Traders", "মেসার্স রহমান ট্রেডার্স, ঢাকা", "श्री. कुलकर्णी आणि कंपनी, पुणे",
    "شركة النور للتجارة", "Müller & Söhne GmbH", "O'Brien, \"Pat\" & Co.",
    "Acme Industrial Supply Ltd", "株式会社サンプル", "Søren Kierkegård ApS",
    "Tata Steel <India>", "Garcia Hermanos S.A.", "Walmart Inc"};
static const char *currencies[] = {"USD", "EUR", "BDT", "INR", "SAR", "JPY"};
static const char *notes[] = {
    "", "", "plain note number ", "comma, separated, note ", "he said \"urgent\" about ",
    "line one\nline two, \"quoted\"\nline three ", "জরুরি ডেলিভারি, पुणे कार्यालय — ✓ ", NULL};
static const char *header[] = {"id", "uid", "customer", "email", "amount", "currency", "created_at (UTC)", "meta", "note"};

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: libxlsxwriter FILE ROWS\n");
        return 2;
    }
    int64_t rows = strtoll(argv[2], NULL, 10);
    lxw_workbook_options options = {.constant_memory = LXW_TRUE, .tmpdir = NULL};
    lxw_workbook *book = workbook_new_opt(argv[1], &options);
    lxw_worksheet *sheet = workbook_add_worksheet(book, "Orders");
    lxw_format *time = workbook_add_format(book);
    format_set_num_format(time, "yyyy-mm-dd hh:mm:ss");
    for (int k = 0; k < 9; k++)
        worksheet_write_string(sheet, 0, k, header[k], NULL);

    char lorem[6][256] = {{0}}, text[512];
    for (int k = 0; k < 6; k++)
        for (int n = 0; n <= k; n++)
            strcat(lorem[k], "lorem ipsum dolor sit amet ");

    for (int64_t i = 1; i <= rows; i++) {
        lxw_row_t r = (lxw_row_t)i;
        uint32_t h = (uint32_t)((uint64_t)i * 2654435761u), g = (uint32_t)(i * 40503 + 12345);
        worksheet_write_number(sheet, r, 0, (double)i, NULL);
        snprintf(text, sizeof text, "%08" PRIx32 "-%04x-4%03x-8%03x-%012" PRIx64, h, g & 0xffff, h >> 7 & 0xfff,
                 g >> 9 & 0xfff, (uint64_t)h * 2654435761u & 0xffffffffffff);
        worksheet_write_string(sheet, r, 1, text, NULL);
        snprintf(text, sizeof text, "%s %d", names[i * 7919 % 12], (int)(i % 5000));
        worksheet_write_string(sheet, r, 2, text, NULL);
        snprintf(text, sizeof text, "user%d.%06x@example%d.com", (int)(i % 700000), h >> 8, (int)(i % 37));
        worksheet_write_string(sheet, r, 3, text, NULL);
        worksheet_write_number(sheet, r, 4, (double)(i * 791919 % 25000000) / 100, NULL);
        worksheet_write_string(sheet, r, 5, currencies[i * 31 % 6], NULL);
        worksheet_write_number(sheet, r, 6, 44562 + (double)(i * 61) / 86400, time);
        if (i % 5 != 0) {
            snprintf(text, sizeof text, "{\"qty\":%d,\"sku\":\"SKU-%d\",\"gift\":%s,\"tags\":[\"a%d\",\"b,\\\"q\\\"\"]}",
                     (int)(1 + i % 17), (int)(i % 9973), i % 3 == 0 ? "true" : "false", (int)(i % 13));
            worksheet_write_string(sheet, r, 7, text, NULL);
        }
        if (i % 8 >= 2) {
            snprintf(text, sizeof text, "%s%" PRId64, i % 8 == 7 ? lorem[i % 6] : notes[i % 8], i);
            worksheet_write_string(sheet, r, 8, text, NULL);
        }
    }
    return workbook_close(book) == LXW_NO_ERROR ? 0 : 1;
}
