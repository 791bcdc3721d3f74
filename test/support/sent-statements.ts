import pg from 'pg';
import { QUESTIONS_OF_CONNECTIONS } from '../../src/platform/db/primary.ts';

/**
 * What is sent over the connections of an application's name meanwhile, past whatever library: the texts of its
 * messages, in order. What a new connection is asked is left out, because any statement may need one.
 * @param work  is given those that were sent until now
 */
export async function sentStatements(
  applications: readonly string[],
  work: (sent: readonly string[]) => Promise<void>,
): Promise<string[]> {
  const { prototype } = pg.Client;
  const real = Object.getOwnPropertyDescriptor(prototype, 'query');
  if (real === undefined) throw new Error('the driver has another form');
  const query = real.value as (...args: unknown[]) => unknown;
  const sent: string[] = [];
  Object.defineProperty(prototype, 'query', {
    ...real,
    value(this: { connectionParameters: { application_name: string } }, ...args: unknown[]) {
      const [message] = args as [string | { text: string }];
      const text = typeof message === 'string' ? message : message.text;
      const isOfApplication = applications.includes(this.connectionParameters.application_name);
      if (isOfApplication && !QUESTIONS_OF_CONNECTIONS.includes(text)) sent.push(text);
      return query.apply(this, args);
    },
  });
  try {
    await work(sent);
  } finally {
    Object.defineProperty(prototype, 'query', real);
  }
  return sent;
}
