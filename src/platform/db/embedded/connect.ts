import { realpath } from 'node:fs/promises';
import { Client, escapeIdentifier } from 'pg';
import { superuser } from './create-cluster.ts';

export interface Server {
  port: number;
  password: string;
  clusterDir: string;
}

/** A superuser connection, verified to be to the server of this cluster and no other. */
export async function connect(server: Server): Promise<Client> {
  const client = new Client({
    host: '127.0.0.1',
    port: server.port,
    user: superuser,
    password: server.password,
    database: 'postgres',
    ssl: false,
    application_name: 'muster owner',
    connectionTimeoutMillis: 5000,
    keepAlive: true,
  });
  // An error between two queries has no one to reject to; without a listener it would end the process.
  client.on('error', () => undefined);
  try {
    await client.connect();
    const { rows } = await client.query<{ data_directory: string }>('show data_directory');
    const shown = rows[0]?.data_directory ?? '';
    if ((await realpath(shown).catch(() => shown)) !== server.clusterDir) {
      throw new Error(`The server on port ${server.port} belongs to ${shown}.`);
    }
    return client;
  } catch (error) {
    // Not awaited: where the connection was refused, it never settles.
    void client.end().catch(() => undefined);
    throw error;
  }
}

export async function createDatabase(client: Client, name: string): Promise<void> {
  const { rowCount } = await client.query('select 1 from pg_database where datname = $1', [name]);
  if (rowCount === 0) await client.query(`create database ${escapeIdentifier(name)}`);
}
