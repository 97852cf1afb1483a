//! The other providers, each with what its own grammar allows.

use super::{facts, meaning};

/// Provider, status, header fields, body, meaning.
type Row = (
    &'static str,
    u16,
    &'static [(&'static str, &'static str)],
    &'static str,
    &'static str,
);

#[track_caller]
fn check(rows: &[Row]) {
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|(provider, status, fields, body, expected)| {
            let got = meaning(&facts(provider, *status, fields, body));
            (got != *expected).then(|| {
                format!("{provider} {status} {fields:?} {body}\n  means {expected}\n  not   {got}")
            })
        })
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn unseen_answers_of_other_model_providers_are_understood() {
    check(&[
        (
            "mistral",
            200,
            &[
                ("x-ratelimit-limit-req-minute", "360"),
                ("x-ratelimit-remaining-req-minute", "359"),
                ("x-ratelimit-limit-tokens-minute", "500000"),
                ("x-ratelimit-remaining-tokens-minute", "499000"),
                ("x-ratelimit-limit-tokens-month", "4000000000"),
                ("x-ratelimit-remaining-tokens-month", "3999000000"),
                ("x-ratelimit-tokens-query-cost", "1000"),
            ],
            "{}",
            "ok: requests_minute 359/360 -; tokens_minute 499000/500000 -; tokens_month 3999000000/4000000000 -",
        ),
        (
            "mistral",
            429,
            &[("retry-after", "7")],
            r#"{"object":"error","message":"Requests rate limit exceeded","type":"rate_limited","code":"1300"}"#,
            "rate_limited, account, 7s",
        ),
        (
            "mistral",
            402,
            &[],
            r#"{"detail":"Payment required"}"#,
            "billing, account",
        ),
        (
            "mistral",
            401,
            &[],
            r#"{"detail":"Unauthorized"}"#,
            "credential, credential",
        ),
        (
            "mistral",
            503,
            &[],
            r#"{"object":"error","message":"Service unavailable.","type":"internal_server_error","code":"1001"}"#,
            "overloaded, endpoint",
        ),
        (
            "cohere",
            429,
            &[],
            r#"{"message":"You are using a Trial key, which is limited to 10 API calls / minute. You can continue to use the Trial key for free or upgrade to a Production key."}"#,
            "rate_limited, endpoint",
        ),
        (
            "cohere",
            429,
            &[],
            r#"{"message":"trial token rate limit exceeded, limit is 100000 tokens per minute"}"#,
            "rate_limited, endpoint",
        ),
        (
            "cohere",
            429,
            &[],
            r#"{"message":"You are using a Trial key, which is limited to 1000 API calls / month."}"#,
            "quota_exhausted, credential",
        ),
        (
            "cohere",
            402,
            &[],
            r#"{"message":"Your account has reached its billing cap. It resets at the beginning of next month."}"#,
            "billing, account",
        ),
        (
            "deepseek",
            503,
            &[],
            r#"{"error":{"message":"Service is too busy. Please retry your request or contact support.","type":"service_unavailable_error"}}"#,
            "overloaded, model",
        ),
        (
            "deepseek",
            422,
            &[],
            r#"{"error":{"message":"Invalid Parameters","type":"invalid_request_error"}}"#,
            "caller_error, account",
        ),
        (
            "deepseek",
            429,
            &[("retry-after", "3")],
            "",
            "too_many_concurrent, model, 3s",
        ),
        (
            "xai",
            403,
            &[],
            r#"{"code":"The caller does not have permission to execute the specified operation","error":"The API key is currently blocked."}"#,
            "permission, account",
        ),
        (
            "xai",
            429,
            &[("retry-after", "1")],
            r#"{"code":"Some resource has been exhausted","error":"Too many requests for team t and model m. Your team's rate limit is - RPS (requests per second): 8."}"#,
            "rate_limited, model, 1s",
        ),
        (
            "together",
            200,
            &[
                ("x-ratelimit-limit", "100"),
                ("x-ratelimit-remaining", "99"),
                ("x-ratelimit-reset", "0.5"),
                ("x-tokenlimit-limit", "3000"),
                ("x-tokenlimit-remaining", "2000"),
            ],
            "{}",
            "ok: requests 99/100 500ms; tokens 2000/3000 -",
        ),
        (
            "together",
            429,
            &[("retry-after", "2")],
            r#"{"error":{"message":"M","type":"model_rate_limit","code":null}}"#,
            "rate_limited, model, 2s",
        ),
        (
            "together",
            402,
            &[],
            r#"{"error":{"message":"Credit limit exceeded","type":"credit_limit"}}"#,
            "billing, account",
        ),
        (
            "fireworks",
            429,
            &[],
            r#"{"error":{"object":"error","type":"invalid_request_error","code":"rate_limit_exceeded","message":"M"}}"#,
            "rate_limited, account",
        ),
        (
            "fireworks",
            503,
            &[("retry-after", "6")],
            r#"{"error":{"message":"Service Unavailable"}}"#,
            "overloaded, model, 6s",
        ),
        (
            "fireworks",
            200,
            &[
                ("X-Ratelimit-Limit-Tokens-Cache-Adjusted-Prompt", "9000"),
                ("X-Ratelimit-Remaining-Tokens-Cache-Adjusted-Prompt", "100"),
            ],
            "{}",
            "near_limit: uncached_prompt_tokens_second 100/9000 -",
        ),
        (
            "perplexity",
            429,
            &[("retry-after", "4")],
            "<html></html>",
            "rate_limited, endpoint, 4s",
        ),
        (
            "perplexity",
            401,
            &[],
            "<html><head><title>401 Authorization Required</title></head></html>",
            "credential, credential",
        ),
    ]);
}

#[test]
fn unseen_answers_of_other_services_are_understood() {
    check(&[
        (
            "gitlab",
            200,
            &[
                ("RateLimit-Limit", "2000"),
                ("RateLimit-Observed", "1999"),
                ("RateLimit-Remaining", "1"),
                ("RateLimit-Reset", "1796126405"),
                ("RateLimit-Name", "throttle_authenticated_api"),
            ],
            "{}",
            "near_limit: requests_minute 1/2000 5s",
        ),
        (
            "gitlab",
            429,
            &[("retry-after", "45")],
            r#"{"message":{"error":"This endpoint has been requested too many times. Try again later."}}"#,
            "rate_limited, endpoint, 45s",
        ),
        (
            "gitlab",
            403,
            &[],
            r#"{"message":"403 Forbidden"}"#,
            "permission, account",
        ),
        (
            "discord",
            429,
            &[
                ("retry-after", "1"),
                ("x-ratelimit-scope", "user"),
                ("x-ratelimit-bucket", "q"),
                ("x-ratelimit-limit", "1"),
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset-after", "0.65"),
            ],
            r#"{"message":"You are being rate limited.","retry_after":0.65,"global":false}"#,
            "rate_limited, endpoint, 650ms: bucket:q 0/1 650ms",
        ),
        (
            "discord",
            403,
            &[],
            r#"{"message":"Missing Permissions","code":50013}"#,
            "permission, account",
        ),
        (
            "discord",
            429,
            &[],
            "error code: 1015",
            "rate_limited, endpoint",
        ),
        (
            "notion",
            429,
            &[("retry-after", "600")],
            r#"{"object":"error","status":429,"code":"rate_limited","message":"M","additional_data":{"rate_limit_reason":"workspace"}}"#,
            "rate_limited, account, 600s",
        ),
        (
            "notion",
            503,
            &[],
            r#"{"object":"error","status":503,"code":"service_unavailable","message":"M"}"#,
            "overloaded, endpoint",
        ),
        (
            "notion",
            504,
            &[],
            r#"{"object":"error","status":504,"code":"gateway_timeout","message":"M"}"#,
            "outcome_unknown, account",
        ),
        (
            "linear",
            200,
            &[
                ("X-RateLimit-Endpoint-Requests-Limit", "60"),
                ("X-RateLimit-Endpoint-Requests-Remaining", "2"),
                ("X-RateLimit-Endpoint-Requests-Reset", "1796126460000"),
                ("X-RateLimit-Endpoint-Name", "issueSearch"),
                ("X-Complexity", "122"),
            ],
            r#"{"data":{}}"#,
            "near_limit: endpoint:issueSearch 2/60 60s",
        ),
        (
            "linear",
            400,
            &[
                ("x-ratelimit-complexity-limit", "250000"),
                ("x-ratelimit-complexity-remaining", "0"),
                ("x-ratelimit-complexity-reset", "1796127000000"),
            ],
            r#"{"errors":[{"message":"M","extensions":{"code":"RATELIMITED"}}]}"#,
            "quota_exhausted, account, 600s: complexity 0/250000 600s",
        ),
        (
            "linear",
            200,
            &[],
            r#"{"errors":[{"message":"M","extensions":{"type":"forbidden","code":"FORBIDDEN"}}]}"#,
            "permission, account",
        ),
        (
            "shopify-graphql",
            200,
            &[],
            r#"{"data":{"a":1},"extensions":{"cost":{"requestedQueryCost":101,"actualQueryCost":46,"throttleStatus":{"maximumAvailable":2000.0,"currentlyAvailable":1954,"restoreRate":100.0}}}}"#,
            "ok: cost_points 1954/2000 -",
        ),
        (
            "shopify-graphql",
            200,
            &[],
            r#"{"errors":[{"message":"Query cost is 2161, which exceeds the single query max cost limit (1000).","extensions":{"code":"MAX_COST_EXCEEDED","cost":2161,"maxCost":1000}}]}"#,
            "caller_error, account",
        ),
        (
            "shopify-graphql",
            429,
            &[("retry-after", "1.5")],
            "",
            "rate_limited, account, 1.500s",
        ),
        (
            "shopify-rest",
            200,
            &[("X-Shopify-Shop-Api-Call-Limit", "1/80")],
            "{}",
            "ok: bucket 79/80 -",
        ),
        (
            "shopify-rest",
            423,
            &[],
            r#"{"errors":"Locked"}"#,
            "lock_conflict, account",
        ),
        (
            "hubspot",
            429,
            &[
                ("x-hubspot-ratelimit-max", "100"),
                ("x-hubspot-ratelimit-remaining", "0"),
                ("x-hubspot-ratelimit-interval-milliseconds", "10000"),
            ],
            r#"{"status":"error","message":"You have reached your ten_secondly_rolling limit.","errorType":"RATE_LIMIT","policyName":"TEN_SECONDLY_ROLLING"}"#,
            "rate_limited, account, 10s: requests_interval 0/100 -",
        ),
        (
            "hubspot",
            423,
            &[],
            r#"{"status":"error","message":"Locked"}"#,
            "lock_conflict, account, 2s",
        ),
        (
            "salesforce",
            200,
            &[("sforce-limit-info", "api-usage=14999/15000")],
            "{}",
            "near_limit: requests_day 1/15000 -",
        ),
        (
            "salesforce",
            401,
            &[],
            r#"[{"message":"Session expired or invalid","errorCode":"INVALID_SESSION_ID"}]"#,
            "credential, credential",
        ),
        (
            "salesforce",
            400,
            &[],
            r#"[{"message":"unable to obtain exclusive access to this record","errorCode":"UNABLE_TO_LOCK_ROW","fields":[]}]"#,
            "lock_conflict, account",
        ),
        (
            "twilio",
            429,
            &[("Twilio-Concurrent-Requests", "41")],
            r#"{"code":20429,"message":"Too Many Requests","more_info":"https://www.twilio.com/docs/errors/20429","status":429}"#,
            "too_many_concurrent, account",
        ),
        (
            "twilio",
            400,
            &[],
            r#"{"code":21211,"message":"Invalid 'To' Phone Number","status":400}"#,
            "caller_error, account",
        ),
        (
            "twilio",
            401,
            &[],
            r#"{"code":20003,"message":"Authenticate","status":401}"#,
            "credential, credential",
        ),
        (
            "sendgrid",
            429,
            &[
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-limit", "600"),
                ("x-ratelimit-reset", "1796126410"),
            ],
            r#"{"errors":[{"field":null,"message":"too many requests"}]}"#,
            "rate_limited, endpoint, 11s: requests 0/600 10s",
        ),
        (
            "google-workspace",
            403,
            &[],
            r#"{"error":{"code":403,"message":"Quota exceeded for quota metric 'Queries'","errors":[{"domain":"usageLimits","reason":"rateLimitExceeded","message":"M"}],"status":"PERMISSION_DENIED"}}"#,
            "rate_limited, account",
        ),
        (
            "google-workspace",
            403,
            &[],
            r#"{"error":{"code":403,"errors":[{"domain":"usageLimits","reason":"dailyLimitExceeded","message":"Daily Limit Exceeded"}],"message":"M"}}"#,
            "quota_exhausted, account",
        ),
        (
            "google-workspace",
            429,
            &[],
            r#"{"error":{"code":429,"message":"User-rate limit exceeded.  Retry after 2026-12-01T12:05:00.000Z","errors":[{"reason":"userRateLimitExceeded"}]}}"#,
            "rate_limited, credential, 300s",
        ),
        (
            "sharepoint",
            429,
            &[
                ("Retry-After", "54"),
                ("RateLimit-Limit", "1200"),
                ("RateLimit-Remaining", "0"),
                ("RateLimit-Reset", "54"),
            ],
            "",
            "rate_limited, account, 54s: resource_units 0/1200 54s",
        ),
        ("sharepoint", 503, &[], "<html>", "overloaded, account"),
        (
            "airtable",
            429,
            &[("retry-after", "45")],
            r#"{"errors":[{"error":"RATE_LIMIT_REACHED","message":"M"}]}"#,
            "rate_limited, account, 45s",
        ),
        (
            "airtable",
            403,
            &[],
            r#"{"error":{"type":"INVALID_PERMISSIONS_OR_MODEL_NOT_FOUND","message":"M"}}"#,
            "permission, account",
        ),
        (
            "zendesk",
            429,
            &[
                ("retry-after", "12"),
                ("x-rate-limit", "400"),
                ("x-rate-limit-remaining", "0"),
                ("ratelimit-reset", "12"),
            ],
            r#"{"error":"APIRateLimitExceeded","description":"D"}"#,
            "rate_limited, account, 12s: account -/- 12s; account 0/400 -",
        ),
        (
            "square",
            429,
            &[],
            r#"{"errors":[{"category":"RATE_LIMIT_ERROR","code":"RATE_LIMITED","detail":"D"}]}"#,
            "rate_limited, account",
        ),
        (
            "square",
            401,
            &[],
            r#"{"errors":[{"category":"AUTHENTICATION_ERROR","code":"UNAUTHORIZED"}]}"#,
            "credential, credential",
        ),
        (
            "paypal",
            429,
            &[("retry-after", "30")],
            r#"{"name":"RATE_LIMIT_REACHED","message":"M"}"#,
            "rate_limited, account, 30s",
        ),
        (
            "adyen",
            409,
            &[],
            r#"{"status":409,"errorCode":"704","message":"request already processed or in progress"}"#,
            "key_in_progress, account",
        ),
        (
            "cloudflare",
            200,
            &[
                ("Ratelimit", r#""default";r=1100;t=120"#),
                ("Ratelimit-Policy", r#""default";q=1200;w=300"#),
            ],
            "{}",
            "ok: default 1100/1200 120s",
        ),
        (
            "cloudflare",
            429,
            &[("retry-after", "Tue, 01 Dec 2026 12:04:00 GMT")],
            "",
            "rate_limited, account, 240s",
        ),
        (
            "generic",
            429,
            &[
                ("RateLimit-Limit", "10, 10;w=1, 50;w=60"),
                ("RateLimit-Remaining", "0"),
                ("RateLimit-Reset", "9"),
            ],
            "",
            "rate_limited, account, 9s: default 0/10 9s; requests -/50 -",
        ),
        (
            "generic",
            429,
            &[("ratelimit", r#""a";r=0;t=3, "b";r=5;t=60"#)],
            "",
            "rate_limited, account, 3s: a 0/- 3s; b 5/- 60s",
        ),
    ]);
}
