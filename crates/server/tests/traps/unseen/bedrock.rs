//! Amazon Bedrock.

use super::table;

#[test]
fn unseen_answers_of_bedrock_are_understood() {
    table(
        "aws-bedrock",
        &[
            (
                429,
                &[("X-AMZN-ErrorType", "ThrottlingException")],
                r#"{"message":"Too many requests, please wait before trying again."}"#,
                "rate_limited, model",
            ),
            // The error's kind in the body only, with the place where it is defined.
            (
                429,
                &[],
                r#"{"__type":"com.amazon.coral.service#ThrottlingException","message":"Rate exceeded"}"#,
                "rate_limited, model",
            ),
            (
                400,
                &[("x-amzn-errortype", "ThrottlingException:")],
                r#"{"message":"Rate exceeded"}"#,
                "rate_limited, model",
            ),
            (
                429,
                &[(
                    "x-amzn-ErrorType",
                    "ThrottlingException:http://internal.amazon.com/coral/",
                )],
                r#"{"message":"Too many tokens per day, please wait before trying again."}"#,
                "quota_exhausted, model",
            ),
            (
                503,
                &[("x-amzn-errortype", "ServiceUnavailableException")],
                r#"{"message":"Bedrock is unable to process your request."}"#,
                "overloaded, endpoint",
            ),
            (
                400,
                &[("x-amzn-errortype", "ValidationException")],
                r#"{"message":"Malformed input request, please reformat your input and try again."}"#,
                "caller_error, account",
            ),
            (
                400,
                &[("x-amzn-errortype", "ConflictException")],
                r#"{"message":"M"}"#,
                "caller_error, account",
            ),
            (
                424,
                &[("x-amzn-errortype", "ModelStreamErrorException")],
                r#"{"message":"M","originalMessage":"O","originalStatusCode":429}"#,
                "provider_error, model",
            ),
            (
                403,
                &[("x-amzn-errortype", "AccessDeniedException")],
                r#"{"Message":"User is not authorized to perform: bedrock:InvokeModel"}"#,
                "permission, account",
            ),
            (
                403,
                &[("x-amzn-errortype", "ExpiredTokenException")],
                r#"{"message":"The security token included in the request is expired"}"#,
                "credential, credential",
            ),
            (
                500,
                &[("x-amzn-errortype", "InternalServerException")],
                r#"{"message":"M"}"#,
                "provider_error, account",
            ),
        ],
    );
}
