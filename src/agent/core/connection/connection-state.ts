/** The state of the agent's connection, for people and for the status file. */
export type ConnectionState =
  | { state: 'connecting' }
  /** `isPending`: the device waits for approval. */
  | { state: 'connected'; since: string; lastHeartbeatAt: string | null; isPending?: true }
  /** The socket is blocked, and heartbeats arrive over HTTP. `reason`: why the socket is not open. */
  | { state: 'http_only'; since: string; lastHeartbeatAt: string; reason: string }
  | { state: 'waiting'; nextTryAt: string; reason: string }
  | { state: 'stopped' };

/** What people have to know about `http_only`. */
export const HTTP_ONLY = 'connected over HTTP only: live queries and commands are not possible';

/** What people have to know about a device that waits for approval. */
export const PENDING =
  'waits for approval: another connected machine has the same machine id. A technician has to approve this device in Muster; until then it is given no work';

/** Whether the server answers HTTP requests, such as uploads of logs, at present. */
export const reachesServer = ({ state }: ConnectionState): boolean =>
  state === 'connected' || state === 'http_only';
