//! The other providers of models, each with what its own grammar allows; the other
//! services are in `services`.

use super::{facts, meaning};

/// Provider, status, header fields, body, meaning.
pub(crate) type Row = (
    &'static str,
    u16,
    &'static [(&'static str, &'static str)],
    &'static str,
    &'static str,
);

#[track_caller]
pub(crate) fn check(rows: &[Row]) {
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
