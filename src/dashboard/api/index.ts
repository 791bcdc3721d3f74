export {
  answerStepUpWith,
  askForSecondFactor,
  apiQuery,
  call,
  createQueryClient,
  download,
  useApiChange,
  useList,
  useRefreshOn,
} from './client.ts';
export { ApiError, send } from './request.ts';
export { newIdempotencyKey, pathOf, type Answer, type Input } from './typed-route.ts';
export type * from './routes.ts';
export { accessToken, dropTokens, holdTokens, onSessionEnd, renewToken } from './tokens.ts';
