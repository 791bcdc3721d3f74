export { call, download, answerStepUpWith } from './client.ts';
export { newIdempotencyKey } from './idempotency-key.ts';
export { apiQuery, createQueryClient, useApiChange, useRefreshOn } from './queries.ts';
export { ApiError, send } from './request.ts';
export { pathOf, type Answer, type Input } from './typed-route.ts';
export type * from './routes.ts';
export { accessToken, dropTokens, holdTokens, onSessionEnd, renewToken } from './tokens.ts';
