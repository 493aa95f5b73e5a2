"""The filter of DescribeAcls and DeleteAcls that any access rule passes, by the requests' field names."""

from __future__ import annotations

ANY_RULE = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
