import { z } from 'zod';

/** A client of the public API. The demo uses it as a new user would: it signs in, creates keys and reads devices. */
export interface DemoClient {
  get<S extends z.ZodType>(path: string, schema: S): Promise<z.infer<S>>;
  post<S extends z.ZodType>(path: string, body: unknown, schema: S): Promise<z.infer<S>>;
}

export async function signInTo(
  url: string,
  person: { email: string; password: string },
): Promise<DemoClient> {
  const login = await request(url, 'POST', '/auth/login', person, undefined);
  const { tokens } = z.object({ tokens: z.object({ accessToken: z.string() }) }).parse(login);
  return {
    get: async (path, schema) => schema.parse(await request(url, 'GET', path, undefined, tokens.accessToken)),
    post: async (path, body, schema) =>
      schema.parse(await request(url, 'POST', path, body, tokens.accessToken)),
  };
}

async function request(
  url: string,
  method: string,
  path: string,
  body: unknown,
  token: string | undefined,
): Promise<unknown> {
  const response = await fetch(`${url}/api/v1${path}`, {
    method,
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answer: unknown = await response.json();
  if (!response.ok) {
    throw new Error(`${method} ${path} failed with ${response.status}: ${JSON.stringify(answer)}`);
  }
  return answer;
}
