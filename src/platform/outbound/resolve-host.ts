import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';

/**
 * The addresses of a host, by DNS alone; empty when there are none. Node's usual `dns.lookup` is avoided: it reads the
 * hosts file of the machine, and it holds a thread of the process for as long as the name server of a tenant takes.
 */
export async function resolveHost(
  host: string,
  { signal, servers }: { signal: AbortSignal; servers?: readonly string[] | undefined },
): Promise<string[]> {
  if (isIP(host) !== 0) return [host];
  const resolver = new Resolver({ timeout: 2000, tries: 2 });
  if (servers !== undefined) resolver.setServers(servers);
  const cancel = () => resolver.cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    signal.throwIfAborted();
    return answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}
