import pg from 'pg';

/**
 * What is sent over the connections of an application's name meanwhile, past whatever library: the texts of its
 * messages, in order.
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
      if (applications.includes(this.connectionParameters.application_name)) {
        sent.push(typeof message === 'string' ? message : message.text);
      }
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
