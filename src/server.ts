import { autoUpdateCommands } from './features/commands/index.ts';
import { addJobs, createWorkers } from './features/index.ts';
import { WorkEngine } from './features/work/index.ts';
import { RETENTION_RULES } from './features/retention-policies.ts';
import type { ChainWriter } from './features/audit/index.ts';
import type { Hub } from './hub/index.ts';
import { VERSION } from './api-info.ts';
import { CloseStack } from './platform/close-stack.ts';
import type { Database } from './platform/db/database.ts';
import { listen } from './platform/http/http-server.ts';
import { pruneRowsDaily } from './platform/jobs/row-pruner.ts';
import type { Encryptor } from './platform/secrets/sealed.ts';
import { createHttpApp } from './server/http-app.ts';
import { openInfrastructure, type ServerOptions } from './server/infrastructure.ts';
import { createLiveSide } from './server/live-side.ts';
import { createServices, createSignInFragments } from './server/services.ts';

export interface Server {
  /** http://127.0.0.1:3000, with the port that was really taken. */
  url: string;
  hub: Hub;
  database: Database;
  chainWriter: ChainWriter;
  /** A single-use sign-in for the program that has started this server (`createSignInFragments`). */
  signInFragment(userId: string): Promise<string>;
  /** Seals what is stored of secrets. */
  secrets: Encryptor;
  /**
   * Does now what waits for a timer: what is pending in memory is written, what is due runs, and what that causes is done
   * as well. What waits for an answer of a device or of another server is not waited for.
   */
  settle(): Promise<void>;
  /** Closes in order: agents are sent away, requests finish, presence and audit are written, pools close. */
  close(): Promise<void>;
}

/**
 * The composition root: builds every part by hand, in order, and listens. Each part that has to be closed is added to
 * `closing` when it starts; `close` runs that stack backwards, and so does a start that fails half way.
 */
export async function startServer(options: ServerOptions): Promise<Server> {
  const { config, log } = options;
  const closing = new CloseStack(log);
  try {
    const infrastructure = await openInfrastructure(options, closing);
    const services = await createServices(infrastructure, options, closing);
    const work = new WorkEngine({
      db: infrastructure.database.queuePool,
      nodeId: infrastructure.nodeId,
      log,
      metrics: infrastructure.metrics,
    });
    const live = await createLiveSide(infrastructure, { ...services, work }, options.hub, closing);
    work.connect(live.hub);
    const { baseUrl, connections, database, deliverMail, httpServer, jobs, mailer } = infrastructure;
    const { metrics, nodeId, proxyTrust, rateLimits, secrets, ssoFetch, txtRecords, urls, webhookFetch } =
      infrastructure;
    const { hub, groups, credentials, upgradeHistory } = live;

    let isDraining = false;
    const app = createHttpApp(infrastructure, services, live, {
      isDraining: () => isDraining,
      dashboard: options.dashboard,
      routeParts: {
        ...services,
        db: database.pool,
        hub,
        secrets,
        txtRecords,
        ssoFetch,
        webhookFetch,
        jobs,
        work,
        mailer,
        deliverMail,
        baseUrl,
        heartbeatSeconds: config.heartbeatSeconds,
        secureCookies: config.secureCookies,
        clientAddressIsKnown: proxyTrust.proxies !== undefined,
        prunesAudit: urls.auditAdminUrl !== undefined,
        archivesAudit: config.auditArchive !== undefined,
        forgetTokens: (deviceIds) => credentials.forget(deviceIds),
        tellAutoUpdate: autoUpdateCommands(hub),
      },
    });
    // Socket.IO takes upgrades only; Express answers every plain request.
    httpServer.on('request', app);

    await hub.start();
    groups.start();
    const url = await listen(httpServer, config);

    // Workers start after the hub, which first marks the devices that an earlier run left behind as connected.
    const workers = createWorkers({
      ...services,
      db: database.hubPool,
      backgroundDb: database.jobPool,
      hub,
      upgradeHistory,
      log,
      metrics,
      secrets,
      webhookFetch,
      jobs,
      work,
      deliverMail,
      baseUrl,
      alertTiming: options.alerts,
      webhookTiming: options.webhooks,
      notificationTiming: options.notifications,
    });
    for (const [name, worker] of workers) await closing.start(name, worker);
    addJobs({
      ...services,
      jobs,
      work,
      db: database.jobPool,
      hub,
      secrets,
      loopbackUrl: url,
      log,
      mailer,
      metrics,
      rateLimits,
      txtRecords,
      ssoFetch,
      baseUrl,
      auditAdminUrl: urls.auditAdminUrl,
      auditArchive: config.auditArchive,
    });
    pruneRowsDaily(jobs, { db: database.jobPool, rules: RETENTION_RULES, log });
    await closing.start('background jobs', jobs);
    await closing.start('work', work);
    closing.add('agents', () => {
      isDraining = true;
      connections.begin();
      return hub.drain();
    });
    log.info({ url, nodeId, version: VERSION }, 'server.listening');

    return {
      url,
      hub,
      database,
      chainWriter: services.chainWriter,
      signInFragment: createSignInFragments(infrastructure, services),
      secrets,
      async settle() {
        await live.settle();
        await services.trail.settle();
        await Promise.all([services.apiKeys.settle(), services.logReads.settle()]);
        for (const [, worker] of workers) await worker.settle?.();
        await jobs.settle();
        await work.settle();
        // Ends of work add jobs.
        await jobs.settle();
        // What workers and jobs have changed in devices, and announced.
        await live.settle();
        await services.chainWriter.flush();
      },
      async close() {
        await closing.close();
        log.info({}, 'server.closed');
      },
    };
  } catch (error) {
    // The failure of the start is the one to report, whatever fails while the parts are closed.
    await closing.close().catch(() => undefined);
    throw error;
  }
}
