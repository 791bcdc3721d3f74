export { MusterError, type OwnCode } from './error.ts';
export type { Token } from './server-options.ts';
export {
  type Client,
  type ClientOptions,
  createClient,
  type ItemOf,
  type JsonRoute,
  type ListRoute,
  newIdempotencyKey,
  type RawRoute,
  type RequestOptions,
} from './rest/client.ts';
export type { LiveOptions } from './live/connection.ts';
export type { DevicesNow } from './live/device-view.ts';
export type { EventLogItem } from './live/event-logs.ts';
export type { JobNews } from './live/jobs.ts';
export { connectLive, type Live } from './live/live.ts';
/** The types of all requests and answers. */
export type * from '../../../src/dashboard/api/routes.ts';
