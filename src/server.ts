import { autoUpdateCommands } from './features/commands/index.ts';
import { addJobs, createWorkers } from './features/index.ts';
import { RETENTION_RULES } from './features/table-life.ts';
import type { AuditSealer } from './features/audit/index.ts';
import type { Hub } from './hub/index.ts';
import { VERSION } from './api-info.ts';
import { CloseStack } from './platform/close-stack.ts';
import type { Database } from './platform/db/database.ts';
import { listen } from './platform/http/server/http-server.ts';
import { pruneRowsDaily } from './platform/jobs/prune-rows.ts';
import type { Sealer } from './platform/secrets/sealed.ts';
import { createHttpApp } from './server/http-app.ts';
import { openInfrastructure } from './server/infrastructure.ts';
import { createLiveSide } from './server/live-side.ts';
import type { ServerOptions } from './server/options.ts';
import { createServices } from './server/services.ts';
import { createSignInFragments } from './server/sign-in-link.ts';

export interface Server {
  /** http://127.0.0.1:3000, with the port that was really taken. */
  url: string;
  hub: Hub;
  database: Database;
  auditSealer: AuditSealer;
  /** A single-use sign-in for the program that has started this server (`createSignInFragments`). */
  signInFragment(userId: string): Promise<string>;
  /** Seals what is stored of secrets. */
  secrets: Sealer;
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
    const live = await createLiveSide(infrastructure, services, options.hub, closing);
    const { baseUrl, connections, database, httpServer, jobs, mailer } = infrastructure;
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
        mailer,
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
      alertTiming: options.alerts,
      webhookTiming: options.webhooks,
    });
    for (const [name, worker] of workers) await closing.start(name, worker);
    addJobs({
      ...services,
      jobs,
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
      auditSealer: services.auditSealer,
      signInFragment: createSignInFragments(infrastructure, services),
      secrets,
      async settle() {
        await live.settle();
        await services.trail.settle();
        await Promise.all([services.apiKeys.settle(), services.logReads.settle()]);
        for (const [, worker] of workers) await worker.settle?.();
        await jobs.settle();
        // What workers and jobs have changed in devices, and announced.
        await live.settle();
        await services.auditSealer.flush();
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
