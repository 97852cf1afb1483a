//! Gemini and Vertex AI.

use super::table;

#[test]
fn unseen_answers_of_gemini_are_understood() {
    table(
        "gemini",
        &[
            // Two quotas at once, and one of them is the day's.
            (
                429,
                &[],
                r#"{"error":{"code":429,"message":"M","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel","quotaValue":"15"},{"quotaId":"GenerateRequestsPerDayPerProjectPerModel","quotaValue":"1500"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7s"}]}}"#,
                "quota_exhausted, model, 7s: requests_day -/1500 -; requests_minute -/15 -",
            ),
            (
                429,
                &[],
                r#"{"error":{"code":429,"message":"M","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateContentInputTokensPerModelPerMinute-FreeTier","quotaValue":"250000"}]},{"retryDelay":"51.125s"}]}}"#,
                "rate_limited, model, 51.125s: input_tokens_minute -/250000 -",
            ),
            // Details in another order, and a wait of many hours.
            (
                429,
                &[],
                r#"{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"65205s"},{"violations":[{"quotaValue":"50","quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}],"message":"M","code":429}}"#,
                "quota_exhausted, model, 65205s: requests_day -/50 -",
            ),
            // The wait stands in the sentence only.
            (
                429,
                &[],
                r#"{"error":{"code":429,"message":"You exceeded your current quota. Please retry in 12.9s.","status":"RESOURCE_EXHAUSTED"}}"#,
                "rate_limited, model, 12.900s",
            ),
            // Nothing was granted of one of two.
            (
                429,
                &[],
                r#"{"error":{"code":429,"message":"M","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateContentInputTokensPerModelPerMinute-FreeTier","quotaValue":"0"},{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier","quotaValue":"0"}]},{"retryDelay":"3s"}]}}"#,
                "no_allowance, model, 3s",
            ),
            (
                503,
                &[],
                r#"{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}"#,
                "overloaded, endpoint",
            ),
            (
                400,
                &[],
                r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}"#,
                "credential, credential",
            ),
            (
                403,
                &[],
                r#"{"error":{"code":403,"message":"Permission denied on resource","status":"PERMISSION_DENIED"}}"#,
                "permission, account",
            ),
            (
                504,
                &[],
                r#"{"error":{"code":504,"message":"Deadline expired before operation could complete.","status":"DEADLINE_EXCEEDED"}}"#,
                "outcome_unknown, account",
            ),
            // A stream that began well and then writes an error into its events.
            (
                200,
                &[("content-type", "text/event-stream")],
                "data: {\"candidates\":[]}\n\ndata: {\"error\":{\"code\":429,\"message\":\"M\",\"status\":\"RESOURCE_EXHAUSTED\"}}\n\n",
                "rate_limited, model",
            ),
        ],
    );
}

#[test]
fn unseen_answers_of_vertex_are_understood() {
    table(
        "vertex-ai",
        &[
            (
                429,
                &[],
                r#"{"error":{"code":429,"message":"Quota exceeded for aiplatform.googleapis.com/online_prediction_requests_per_base_model with base model: m.","status":"RESOURCE_EXHAUSTED"}}"#,
                "rate_limited, model",
            ),
            (
                429,
                &[],
                r#"[{"error":{"code":429,"message":"Resource exhausted. Please try again later.","status":"RESOURCE_EXHAUSTED"}}]"#,
                "overloaded, model",
            ),
            (
                429,
                &[("retry-after", "11")],
                r#"{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}}"#,
                "overloaded, model, 11s",
            ),
            (
                401,
                &[],
                r#"[{"error":{"code":401,"message":"Request had invalid authentication credentials.","status":"UNAUTHENTICATED"}}]"#,
                "credential, credential",
            ),
            (
                503,
                &[],
                r#"[{"error":{"code":503,"message":"The service is currently unavailable.","status":"UNAVAILABLE"}}]"#,
                "overloaded, endpoint",
            ),
            (429, &[], "", "rate_limited, account"),
        ],
    );
}
