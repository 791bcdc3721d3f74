import { z } from 'zod';
import type { CloudConfig } from '../configs/config.model.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/errors.ts';
import { GraphError, isOfConnection, Postponed } from '../graph/graph-error.ts';
import type { GraphClient } from '../graph/graph-client.ts';
import { KINDS } from '../kinds/all-kinds.ts';
import {
  type Container,
  GraphId,
  type GraphUser,
  type Kind,
  type KindName,
  listAll,
  partOf,
} from '../kinds/kind.ts';
import { readContainer } from './read-container.ts';
import { forgetContainers } from './forget-containers.ts';
import { retryDue } from './retry-due.ts';
import { holdJob, type Run, RunEnded, within } from './run.ts';

/** Users of a configuration that are read at once. */
const USERS_AT_ONCE = 3;

const DirectoryUser = z.object({
  id: GraphId,
  userPrincipalName: z.string().max(320).nullish(),
  mail: z.string().max(320).nullish(),
});

/** What a user has not got is no failure: not everybody has a mailbox and a drive. */
const ABSENT: ReadonlySet<string> = new Set([
  'MailboxNotEnabledForRESTAPI',
  'MailboxNotSupportedForRESTAPI',
  'ResourceNotFound',
  'itemNotFound',
  'notFound',
]);

interface Work {
  email: string;
  kind: KindName;
}

/** One user's failure never stops the run. */
export async function runBackup(
  run: Run,
  config: CloudConfig,
): Promise<{ status: 'completed' | 'partial' | 'failed'; code?: string; message?: string }> {
  const users = new UsersByEmail(run.graph);
  const emails = config.allUsers ? await users.all() : config.targetUsers;
  const open = await planWork(run, emails, config.backupScope);
  const waiting = new Map<string, Work[]>();
  for (const work of open) waiting.set(work.email, [...(waiting.get(work.email) ?? []), work]);
  const queue = [...waiting.values()];
  const next = async () => {
    for (let works = queue.shift(); works !== undefined; works = queue.shift()) {
      for (const work of works) await doWork(run, users, work);
    }
  };
  const outcomes = await Promise.allSettled(Array.from({ length: USERS_AT_ONCE }, next));
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  return endOf(run);
}

/** Answers what is still to be done, also for a server that takes the run over. */
const planWork = (run: Run, emails: readonly string[], kinds: readonly KindName[]): Promise<Work[]> =>
  within(run, async (tx) => {
    await holdJob(tx, run);
    for (let from = 0; from < emails.length; from += 500) {
      const rows = emails
        .slice(from, from + 500)
        .flatMap((email) =>
          kinds.map((kind) => ({ job_id: run.jobId, org_id: run.orgId, user_email: email, kind })),
        );
      await tx('c2c_outcomes').insert(rows).onConflict(['job_id', 'user_email', 'kind']).ignore();
    }
    await tx('c2c_jobs')
      .where('id', run.jobId)
      .update({ parts_total: tx('c2c_outcomes').where('job_id', run.jobId).count('*') });
    return tx('c2c_outcomes')
      .where('job_id', run.jobId)
      .whereIn('status', ['pending', 'running'])
      .orderBy(['user_email', 'kind'])
      .select<Work[]>({ email: 'user_email', kind: 'kind' });
  });

async function doWork(run: Run, users: UsersByEmail, { email, kind }: Work): Promise<void> {
  const key = { job_id: run.jobId, user_email: email, kind };
  try {
    await within(run, async (tx) => {
      await holdJob(tx, run);
      await tx('c2c_outcomes').where(key).update({ status: 'running' });
    });
    const user = await users.find(email);
    await readKind(run, KINDS[kind], user);
    await within(run, async (tx) => {
      await holdJob(tx, run);
      await tx('c2c_outcomes')
        .where(key)
        .update({ status: tx.raw(`case when items_failed > 0 then 'partial' else 'completed' end`) });
      await tx('c2c_jobs').where('id', run.jobId).increment('parts_done', 1);
    });
  } catch (error) {
    run.graph.signal.throwIfAborted();
    if (error instanceof Postponed || error instanceof RunEnded || isOfConnection(error)) throw error;
    if (error instanceof AppError && error.code === 'storage_full') throw error;
    if (!(error instanceof GraphError)) throw error;
    await within(run, async (tx) => {
      await holdJob(tx, run);
      const isAbsent =
        error.status === 404 && ABSENT.has(error.code) && !(await hadItems(tx, run, { email, kind }));
      await tx('c2c_outcomes')
        .where(key)
        .update({
          status: isAbsent ? 'skipped' : 'failed',
          error_code: error.code.slice(0, 100),
          error_message: error.message.slice(0, 1000),
        });
      await tx('c2c_jobs').where('id', run.jobId).increment('parts_done', 1);
    });
  }
}

/** What was backed up before and is not there any more is missing: a mailbox that has lost its licence, a drive. */
async function hadItems(tx: Tx, { configId }: Run, { email, kind }: Work): Promise<boolean> {
  const item = await tx('c2c_items')
    .where({ config_id: configId, user_email: email, kind })
    .whereNull('deleted_at')
    .first<{ id: string } | undefined>('id');
  return item !== undefined;
}

async function readKind(run: Run, kind: Kind, user: GraphUser): Promise<void> {
  const containers = await kind.containers(run.graph, user);
  await retryDue(run, kind, user);
  let failure: unknown;
  for (const container of containers) {
    failure ??= await readOne(run, { kind, user, container });
  }
  if (failure !== undefined) throw failure;
  await forgetContainers(run, { kind, user, containers });
}

/** A folder that cannot be read does not keep the others from being read. */
async function readOne(
  run: Run,
  at: { kind: Kind; user: GraphUser; container: Container },
): Promise<GraphError | undefined> {
  try {
    await readContainer(run, at);
    return undefined;
  } catch (error) {
    if (!(error instanceof GraphError) || isOfConnection(error)) throw error;
    // It was removed since the list of folders: the next run does not see it any more.
    return error.status === 404 && at.container.id !== '' ? undefined : error;
  }
}

/** Of what was done. A run in which no user had anything to back up has backed up nothing. */
const endOf = (run: Run): ReturnType<typeof runBackup> =>
  within(run, async (tx) => {
    const { rows } = await tx.raw<{ rows: [{ whole: number; partial: number; failed: number }] }>(
      `select count(*) filter (where status = 'completed')::int as whole,
        count(*) filter (where status = 'partial')::int as partial,
        count(*) filter (where status = 'failed')::int as failed
      from c2c_outcomes where job_id = ?`,
      [run.jobId],
    );
    const [{ whole, partial, failed }] = rows;
    if (whole + partial === 0 && failed > 0) return { status: 'failed' };
    if (whole + partial === 0) return { status: 'failed', code: 'BACKUP_EMPTY', message: NOTHING_THERE };
    return { status: partial + failed > 0 ? 'partial' : 'completed' };
  });

const NOTHING_THERE = 'No user of the configuration has a mailbox or a drive that it backs up.';

class UsersByEmail {
  readonly #graph: GraphClient;
  readonly #known = new Map<string, GraphUser>();

  constructor(graph: GraphClient) {
    this.#graph = graph;
  }

  /** Everybody in the directory who has an address. */
  async all(): Promise<string[]> {
    const users = await listAll(
      this.#graph,
      '/users?$select=id,userPrincipalName,mail&$top=999',
      DirectoryUser,
    );
    return users.flatMap((user) => {
      const email = emailOf(user);
      if (email === undefined) return [];
      this.#known.set(email, { id: user.id, email });
      return [email];
    });
  }

  async find(email: string): Promise<GraphUser> {
    const known = this.#known.get(email);
    if (known !== undefined) return known;
    const user = await findUser(this.#graph, email);
    this.#known.set(email, user);
    return user;
  }
}

const emailOf = ({ mail, userPrincipalName }: z.output<typeof DirectoryUser>) =>
  (mail ?? userPrincipalName)?.toLowerCase().replace(/[\p{Cc}\p{Surrogate}]/gu, '');

/** @throws GraphError  `USER_NOT_FOUND` */
export async function findUser(graph: GraphClient, email: string): Promise<GraphUser> {
  try {
    const { id } = await graph.json(
      `/users/${partOf(email)}?$select=id,userPrincipalName,mail`,
      DirectoryUser,
    );
    return { id, email };
  } catch (error) {
    if (!(error instanceof GraphError) || error.status !== 404) throw error;
    throw new GraphError('USER_NOT_FOUND', 'There is no such user in the directory.');
  }
}
