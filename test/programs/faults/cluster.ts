import path from 'node:path';
import type { TestRedis } from '../../support/redis.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';
import type { TestDatabase } from '../../support/test-postgres.ts';
import type { OwnPostgres } from '../e2e/faults/support/own-postgres.ts';
import { startServerProgram, type ServerProgram } from '../e2e/faults/support/server-program.ts';
import { openBalancer, type Balancer } from './balancer.ts';
import { type Fault, LINKS, type Link, SERVERS, type ServerName } from './schedule.ts';

/** Three servers as processes of their own, each with a network of its own to Redis, Postgres and its clients. */
export interface Cluster {
  /** Where agents connect. */
  balancer: Balancer;
  /** Where a server is reached by whoever wants this one, also while it is down. */
  urlOf(name: ServerName): string;
  server(name: ServerName): ServerProgram;
  /** Makes the fault begin, and answers what ends it. */
  begin(fault: Fault): Promise<() => Promise<void>>;
  /** What servers, also those of earlier lives, have logged as warnings and errors: how often each. */
  logged(): Map<string, number>;
  /** Servers that ended by themselves, and errors that nobody caught. */
  serverFaults(): string[];
  close(): Promise<void>;
}

export interface ClusterOptions {
  database: Pick<TestDatabase, 'ownerUrl' | 'appUrl'>;
  /** The same database as the servers are told of it; absent: each reaches it over a link of its own. */
  toldDatabase?: Pick<TestDatabase, 'ownerUrl' | 'appUrl'> | undefined;
  redis: TestRedis;
  /** Of the same database, where it may be stopped. */
  postgres?: Pick<OwnPostgres, 'stop' | 'start'> | undefined;
  folder: string;
  tell: (line: string) => void;
}

interface Member {
  name: ServerName;
  /** The last one is the one that runs. */
  lives: ServerProgram[];
  links: Record<Link, TcpProxy>;
  /** Of the program, to which the link of clients leads. */
  address: { host: string; port: number };
  isKilled: boolean;
}

const HEARTBEAT_SECONDS = 3;
const START_TRIES = 5;
const SLOW_MS = 400;
const SUPERVISE_MS = 500;
/** Of the log of a server that has ended by itself. */
const LAST_LINES = 8;
const UNCAUGHT = /server\.fault|unhandled/i;

export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const { database, toldDatabase, redis, postgres, folder, tell } = options;
  const members: Member[] = [];
  const problems: string[] = [];
  /** Servers that the balancer knows to be down, as it would by its own checks. */
  const shunned = new Set<ServerName>();

  const start = async (member: Member) => {
    const { name, links } = member;
    const program = await startServerProgram({
      nodeId: name,
      database: toldDatabase ?? {
        ownerUrl: withPort(database.ownerUrl, links.postgres.port),
        appUrl: withPort(database.appUrl, links.postgres.port),
      },
      redisUrl: withPort(redis.url, links.redis.port),
      dataDir: path.join(folder, name),
      heartbeatSeconds: HEARTBEAT_SECONDS,
    });
    member.lives.push(program);
    member.address.port = Number(new URL(program.url).port);
    member.isKilled = false;
  };
  /** As a supervisor does: a server that cannot start, because what it needs is away too, is started again. */
  const startAgain = async (member: Member) => {
    for (let tries = 1; ; tries++) {
      try {
        return await start(member);
      } catch (error) {
        if (tries === START_TRIES) throw error;
        await new Promise((resolve) => setTimeout(resolve, 1000));
      }
    }
  };
  const addMember = async (name: ServerName) => {
    const address = { host: '127.0.0.1', port: 1 };
    const links = {
      redis: await startTcpProxy(addressOf(redis.url)),
      postgres: await startTcpProxy(addressOf(database.ownerUrl)),
      clients: await startTcpProxy(address),
    };
    const member = { name, lives: [], links, address, isKilled: true };
    members.push(member);
    await start(member);
  };
  const memberOf = (name: ServerName): Member => {
    const member = members.find((one) => one.name === name);
    if (member === undefined) throw new Error(`There is no server ${name}.`);
    return member;
  };
  const programOf = ({ name, lives }: Member): ServerProgram => {
    const program = lives.at(-1);
    if (program === undefined) throw new Error(`The server ${name} was never started.`);
    return program;
  };
  /** As a supervisor: a server that has ended by itself is a violation, and is started again. */
  const superviseAll = () => {
    for (const member of members) {
      if (member.isKilled || !programOf(member).hasEnded()) continue;
      member.isKilled = true;
      const last = programOf(member).log().slice(-LAST_LINES);
      const what = `${member.name} ended by itself; its last lines: ${last.map((line) => JSON.stringify(line)).join(' ')}`;
      problems.push(what);
      tell(what);
      startAgain(member).catch((error: unknown) => problems.push(String(error)));
    }
  };
  const supervision = setInterval(superviseAll, SUPERVISE_MS);
  const close = async () => {
    clearInterval(supervision);
    for (const { lives } of members) await lives.at(-1)?.kill();
    for (const { links } of members) for (const link of LINKS) await links[link].cut().catch(() => {});
  };

  const balancer = await openBalancer(() =>
    members.filter(({ name }) => !shunned.has(name)).map(({ links }) => links.clients.port),
  );
  try {
    // The first one migrates an empty database, for which the others would wait.
    for (const name of SERVERS) await addMember(name);
  } catch (error) {
    await balancer.close();
    await close();
    throw error;
  }

  const beginProcessFault = async (kind: 'kill' | 'freeze', member: Member) => {
    superviseAll();
    shunned.add(member.name);
    const program = programOf(member);
    if (kind === 'freeze') program.freeze();
    else {
      member.isKilled = true;
      await program.kill();
    }
    return async () => {
      if (kind === 'freeze') program.thaw();
      else await startAgain(member);
      shunned.delete(member.name);
    };
  };
  const beginLinkFault = async (kind: 'cut' | 'black-hole' | 'slow', member: Member, link: Link) => {
    const proxy = member.links[link];
    if (link === 'clients' && kind !== 'slow') shunned.add(member.name);
    if (kind === 'cut') await proxy.cut();
    else if (kind === 'slow') proxy.slow(SLOW_MS);
    else {
      proxy.freeze();
      proxy.swallowNew(true);
    }
    return async () => {
      if (kind === 'cut') await proxy.mend();
      else if (kind === 'slow') proxy.slow(0);
      // The connections that it had stay open and silent: whoever has one must find out.
      else proxy.swallowNew(false);
      shunned.delete(member.name);
    };
  };
  const beginRestart = async (service: 'redis' | 'postgres') => {
    if (service === 'redis') {
      await redis.kill();
      return () => redis.start();
    }
    await postgres?.stop();
    return async () => postgres?.start();
  };

  return {
    balancer,
    urlOf: (name) => `http://127.0.0.1:${memberOf(name).links.clients.port}`,
    server: (name) => programOf(memberOf(name)),
    begin(fault) {
      if ('service' in fault) return beginRestart(fault.service);
      const member = memberOf(fault.server);
      return 'link' in fault
        ? beginLinkFault(fault.kind, member, fault.link)
        : beginProcessFault(fault.kind, member);
    },
    logged() {
      const counts = new Map<string, number>();
      for (const line of members.flatMap(({ lives }) => lives.flatMap((life) => life.log()))) {
        if (!['warn', 'error', 'fatal'].includes(String(line['level']))) continue;
        const event = `${String(line['level'])} ${String(line['event'])}`;
        counts.set(event, (counts.get(event) ?? 0) + 1);
      }
      return counts;
    },
    serverFaults() {
      superviseAll();
      const uncaught = members.flatMap(({ name, lives }) =>
        lives
          .flatMap((life) => life.log())
          .filter((line) => UNCAUGHT.test(String(line['event'])))
          .map((line) => `${name} logged ${JSON.stringify(line)}`),
      );
      return [...new Set([...problems, ...uncaught])];
    },
    async close() {
      await balancer.close();
      await close();
    },
  };
}

const addressOf = (url: string) => ({ host: '127.0.0.1', port: Number(new URL(url).port) });

function withPort(url: string, port: number): string {
  const changed = new URL(url);
  changed.port = String(port);
  return changed.href;
}
