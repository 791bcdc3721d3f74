import { AccessTokens, GraphClient, Throttle } from '../../../src/features/cloud-backup/graph-client.ts';

export const GRAPH_URL = 'https://graph.microsoft.com/v1.0';

export const jsonAnswer = (body: unknown, status = 200, headers: Record<string, string> = {}): Response =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } });

/** Microsoft Graph without a network: each request gets what the test answers. */
export function answeringGraph(answer: (url: string) => Response): {
  graph: GraphClient;
  /** Until when the connection has to pause. */
  held: Date[];
} {
  const held: Date[] = [];
  const login = { fetch: () => Promise.resolve(jsonAnswer({ access_token: 'token', expires_in: 3600 })) };
  const fetch = (url: string) => Promise.resolve(answer(url));
  const graph = new GraphClient({
    fetch: { fetch },
    files: { fetch, open: () => Promise.reject(new Error('No file is expected.')) },
    graphUrl: GRAPH_URL,
    tokens: new AccessTokens(login, { graphUrl: GRAPH_URL, loginUrl: 'https://login.microsoftonline.com' }),
    credentials: { tenantId: 'tenant', clientId: 'client', secret: 'secret' },
    throttle: new Throttle({
      patienceMs: 0,
      until: null,
      store: (until) => {
        held.push(until);
        return Promise.resolve();
      },
    }),
    owner: 'connection',
    signal: new AbortController().signal,
    pauseMs: 1,
  });
  return { graph, held };
}
