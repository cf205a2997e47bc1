"""Lists the functions of Spark that a query may call: those that compute a value from one row.

A query text may come from an untrusted user, and predicates are evaluated for rows in an unknown order and any number
of times. So a function must have these properties: it is deterministic; it depends on one row, and is no aggregate,
window function or generator; it calls no method by its name, has no side effect, and reads no file, session or clock.
This module lists the functions that were checked and have these properties, by the groups in which Spark reports them.
All other functions are refused, including those of later versions of Spark.
"""

from __future__ import annotations

from collections.abc import Iterator

from cetdsl.errors import CetdslError, UnsupportedQuery
from cetdsl.pattern.expressions import Call, Expr

_LISTED = {
    "array": """
        array array_append array_compact array_contains array_distinct array_except array_insert
        array_intersect array_join array_max array_min array_position array_prepend array_remove
        array_repeat array_size array_union arrays_overlap arrays_zip flatten get sequence slice sort_array
    """,
    "bitwise": """
        bit_count bit_get getbit shiftleft shiftright shiftrightunsigned
    """,
    "collection": """
        cardinality concat element_at reverse size try_element_at
    """,
    "conditional": """
        coalesce ifnull nanvl nullif nullifzero nvl nvl2 zeroifnull
    """,
    "conversion": """
        bigint binary boolean cast date decimal double float int smallint string time timestamp tinyint
    """,
    "csv": """
        from_csv schema_of_csv to_csv
    """,
    "datetime": """
        add_months convert_timezone date_add date_diff date_format date_from_unix_date date_part date_sub
        date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear extract
        from_unixtime from_utc_timestamp hour last_day make_date make_dt_interval make_interval make_time
        make_timestamp make_timestamp_ltz make_timestamp_ntz make_ym_interval minute month monthname
        months_between next_day quarter second time_bucket time_diff time_from_micros time_from_millis
        time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc timestamp_micros
        timestamp_millis timestamp_nanos timestamp_seconds to_date to_time to_timestamp to_timestamp_ltz
        to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc try_make_interval try_make_timestamp
        try_make_timestamp_ltz try_make_timestamp_ntz try_to_date try_to_time try_to_timestamp unix_date
        unix_micros unix_millis unix_nanos unix_seconds unix_timestamp weekday weekofyear year
    """,
    "hash": """
        crc32 hash md5 sha sha1 sha2 xxhash64
    """,
    "json": """
        from_json get_json_object json_array_length json_object_keys schema_of_json to_json
    """,
    "lambda": """
        aggregate array_sort exists filter forall map_filter map_zip_with reduce transform transform_keys
        transform_values zip_with
    """,
    "map": """
        map map_concat map_contains_key map_entries map_from_arrays map_from_entries map_keys map_values
        str_to_map
    """,
    "math": """
        abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot csc
        degrees div e exp expm1 factorial floor greatest hex hypot least ln log log10 log1p log2 mod
        negative pi pmod positive pow power radians rint round sec sign signum sin sinh sqrt tan tanh
        try_add try_divide try_mod try_multiply try_subtract unhex width_bucket
    """,
    "misc": """
        aes_decrypt bitmap_bit_position bitmap_bucket_number bitmap_count hmac try_aes_decrypt typeof
    """,
    "predicate": """
        equal_null ilike isnan isnotnull isnull like regexp regexp_like rlike
    """,
    "sketch": """
        approx_top_k_estimate hll_sketch_estimate hll_union kll_sketch_get_n_bigint kll_sketch_get_n_double
        kll_sketch_get_n_float kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double
        kll_sketch_get_quantile_float kll_sketch_get_rank_bigint kll_sketch_get_rank_double
        kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float
        kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float theta_difference
        theta_intersection theta_sketch_estimate theta_union tuple_difference_double
        tuple_difference_integer tuple_difference_theta_double tuple_difference_theta_integer
        tuple_intersection_double tuple_intersection_integer tuple_intersection_theta_double
        tuple_intersection_theta_integer tuple_sketch_estimate_double tuple_sketch_estimate_integer
        tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double
        tuple_sketch_theta_integer tuple_union_double tuple_union_integer tuple_union_theta_double
        tuple_union_theta_integer
    """,
    "st": """
        st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid
    """,
    "string": """
        ascii base64 bit_length btrim char char_length character_length chr collate collation concat_ws
        contains decode elt encode endswith find_in_set format_number format_string from_base32 initcap
        instr is_valid_utf8 jaro_winkler_similarity lcase left len length levenshtein locate lower lpad
        ltrim luhn_check make_valid_utf8 mask octet_length overlay position printf quote regexp_count
        regexp_extract regexp_extract_all regexp_instr regexp_replace regexp_substr repeat replace right
        rpad rtrim sentences soundex space split split_part startswith substr substring substring_index
        to_base32 to_binary to_char to_number to_varchar translate trim try_to_binary try_to_number
        try_validate_utf8 ucase unbase64 upper validate_utf8
    """,
    "struct": """
        named_struct struct
    """,
    "url": """
        parse_url try_parse_url try_url_decode url_decode url_encode
    """,
    "variant": """
        is_valid_variant is_variant_null parse_json schema_of_variant to_variant_object try_parse_json
        try_variant_array_append try_variant_get try_variant_insert try_variant_set variant_array_append
        variant_delete variant_get variant_insert variant_set variant_strip_nulls
    """,
    "vector": """
        vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm
        vector_normalize
    """,
    "xml": """
        to_xml xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short
        xpath_string
    """,
}

#: Casts that SQL writes as functions of one argument, ``date(ts)``; Spark's Python names none of them.
CASTS = (
    *("bigint", "binary", "boolean", "date", "decimal", "double", "float"),
    *("int", "smallint", "string", "timestamp", "tinyint"),
)
#: Functions of one row, by group.
ROW_FUNCTIONS = {group: frozenset(names.split()) for group, names in _LISTED.items()}
#: Functions that neither make nor write a date or a time, unless an operand is one; by their groups, and then all of
#: them, with IN, which is represented as a call.
_WITHOUT_TIMES = (
    *("array", "bitwise", "collection", "conditional", "hash", "map", "math", "predicate", "string", "struct"),
    *("url", "vector"),
)
WITHOUT_TIMES = frozenset({"in"}).union(*(ROW_FUNCTIONS[group] for group in _WITHOUT_TIMES))
#: What is wrong with functions in the same groups of Spark that are refused.
REFUSED = {
    "gives no fixed value for a row": """
        aes_encrypt curdate current_date current_time current_timestamp localtime localtimestamp
        monotonically_increasing_id now rand randn random randstr shuffle spark_partition_id uniform uuid
    """,
    "calls methods of Java": "java_method reflect try_reflect",
    "looks beyond the row": """
        current_catalog current_database current_path current_schema current_timezone current_user from_xml
        input_file_block_length input_file_block_start input_file_name schema_of_xml session_user user version
    """,
    "fails on purpose": "assert_true raise_error",
    "is no function of one row": """
        json_tuple schema_of_variant_agg session_window variant_explode variant_explode_outer vector_avg vector_sum
        window window_time
    """,
}
CONDITIONAL_HINT = (
    "there is no conditional: join predicates with AND and OR, or compute a column of the DataFrame before asking"
)
CAST_HINT = "a cast is a function by the name of its type: int(b.x), date(b.ts)"
#: What a query writes in place of functions that exist in SQL, but not among Spark's functions of columns.
INSTEAD = {
    **dict.fromkeys(("if", "iff", "case", "when"), CONDITIONAL_HINT),
    **dict.fromkeys(("cast", "convert", "try_cast"), CAST_HINT),
    "div": "write floor(b.x / 2)",
}
_AS_A_COLUMN = "compute it as a column of the DataFrame first"
_NEIGHBOUR_HINTS = {
    "lag": f"of the event bound before write PREV(b).x; of any row before, {_AS_A_COLUMN}",
    "lead": f"of the event bound next write NEXT(b).x; of any row behind, {_AS_A_COLUMN}",
}
_ALLOWED = frozenset().union(*ROW_FUNCTIONS.values())
_REASONS = {name: reason for reason, names in REFUSED.items() for name in names.split()}
#: Functions that read the clock if they are called without an argument.
_CLOCKS = ("unix_timestamp",)


def function_errors(expr: Expr) -> Iterator[CetdslError]:
    """Yields errors for calls of anything but functions of one row."""
    for node in expr.walk():
        reason = refusal(node) if isinstance(node, Call) else None
        if reason is not None:
            yield UnsupportedQuery(
                f"{node.name}() {reason}, so it cannot be part of a query",  # type: ignore[attr-defined]
                hint=_NEIGHBOUR_HINTS.get(node.name.lower(), _AS_A_COLUMN),  # type: ignore[attr-defined]
            )


def refusal(call: Call) -> str | None:
    """Returns why a function may not be called; None if it may.

    Examples
    --------
    >>> print(refusal(Call("abs", ())))
    None
    >>> refusal(Call("reflect", ())), refusal(Call("of_another_version", ()))
    ('calls methods of Java', 'is not known to be a function of one row')
    """
    name = call.name.lower()
    if name in _CLOCKS and not call.arguments:
        return "gives no fixed value for a row"
    # IN is represented as a function call, but it is no function of Spark.
    if name in _ALLOWED or name == "in":
        return None
    return _REASONS.get(name, "is not known to be a function of one row")
