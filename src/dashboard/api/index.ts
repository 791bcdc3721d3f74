export { call, download, answerStepUpWith } from './client.ts';
export { newIdempotencyKey } from './idempotency-key.ts';
export { apiQuery, createQueryClient, useApiChange, useRefreshOn } from './queries.ts';
export { ApiError, pathOf, send, type Answer, type Input } from './request.ts';
export type * from './routes.ts';
export { accessToken, dropTokens, holdTokens, onSessionEnd, renewToken } from './tokens.ts';
