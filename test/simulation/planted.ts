/** One place of the product that is changed, so that it is wrong. */
interface Change {
  file: string;
  find: string;
  put: string;
}

export interface PlantedFault {
  name: string;
  /** Of `cluster-faults.md`, the list of faults that were once found in real clusters. */
  was?: string;
  changes: readonly Change[];
}

const ACTOR = 'src/hub/device/device-actor.ts';
const MAILBOX = 'src/hub/device/mailbox.ts';
const REGISTRY = 'src/hub/device/actor-registry.ts';
const QUERIES = 'src/hub/device/pending-queries.ts';
const ROUTER = 'src/hub/cluster/router.ts';
const DISPATCHER = 'src/hub/commands/command-dispatcher.ts';
const WRITER = 'src/hub/presence/presence-writer.ts';
const LOST = 'src/hub/presence/lost-devices.ts';
const REPORTS = 'src/hub/presence/actor-reports.ts';
const SWEEP = 'src/hub/presence/silence-sweep.ts';
const CONNECTIONS = 'src/hub/agents/agent-connections.ts';
const GUARD = 'src/hub/agents/identity-guard.ts';
const CLAIMS = 'src/platform/cluster/redis-claims.ts';
const BUS = 'src/platform/cluster/redis-bus.ts';
const JOIN = 'src/hub/cluster/redis-cluster.ts';
const FEED = 'src/hub/feed/cluster-feed.ts';
const HANDLERS = 'src/hub/feed/device-event-handlers.ts';
const ADMISSION = 'src/hub/wire/admission.ts';
const MESSAGES = 'src/hub/device/actor-messages.ts';
const HUB = 'src/hub/index.ts';

const fault = (name: string, file: string, find: string, put: string): PlantedFault => ({
  name,
  changes: [{ file, find, put }],
});

/**
 * Faults that the simulation has to find: `npm run test:simulation -- --planted`. They measure the workload and the
 * auditor. Each is a mistake that somebody could make, not a random change: for those there is mutation testing.
 */
export const PLANTED: readonly PlantedFault[] = [
  // Those of real clusters.
  {
    name: 'undelivered commands are not looked for',
    was: 'V1',
    changes: [
      {
        file: DISPATCHER,
        find: '    this.#parts = parts;\n    this.#schedule();',
        put: '    this.#parts = parts;',
      },
      { file: HUB, find: 'bus.onNodeLost(() => void undeliveredWork.scan());', put: '' },
      {
        file: HUB,
        find: '      void undeliveredWork.scan();\n      ownFeed.resync();',
        put: '      ownFeed.resync();',
      },
      {
        file: HUB,
        find: 'for (const { deviceId } of registry.values()) dispatcher.wake(deviceId);\n',
        put: '\n',
      },
    ],
  },
  {
    name: 'plain device lists are not read again after changes were missed',
    was: 'V2',
    changes: [{ file: HUB, find: '      ownFeed.resync();\n', put: '' }],
  },
  {
    name: 'devices of a lost server are marked once, whether that succeeds or not',
    was: 'V3',
    changes: [
      { file: LOST, find: 'if (!this.#isClosed) this.#markAfter(', put: 'if (attempt < 0) this.#markAfter(' },
    ],
  },
  {
    name: 'epochs are not seeded from the database',
    was: 'V6a',
    changes: [
      { file: HUB, find: 'directory.epochSeen(await store.greatestEpoch());', put: '' },
      { file: HUB, find: '.then((epoch) => directory.epochSeen(epoch))', put: '.then(() => undefined)' },
    ],
  },
  {
    name: 'claims of which the database has a greater epoch are not made again',
    changes: [
      {
        file: CONNECTIONS,
        find: 'if (owner?.nodeId === bus.nodeId) this.renew(deviceId);',
        put: 'void owner;',
      },
    ],
  },
  {
    name: 'admission counts by the clock of the machine',
    was: 'V6b',
    changes: [
      {
        file: ADMISSION,
        find: '  follow(lateMs: number, now = clock.monotonic())',
        put: '  follow(lateMs: number, now = clock.now())',
      },
      {
        file: ADMISSION,
        find: '  refusal(now = clock.monotonic()): Refusal',
        put: '  refusal(now = clock.now()): Refusal',
      },
      {
        file: ADMISSION,
        find: 'limits: AdmissionLimits, now = clock.monotonic()',
        put: 'limits: AdmissionLimits, now = clock.now()',
      },
    ],
  },
  {
    name: 'silence is measured by the clock of the machine',
    was: 'V6c',
    changes: [
      {
        file: SWEEP,
        find: 'actor.countSilentSweep() > silentAfterSweeps &&',
        put: 'clock.now() - actor.lastHeardAt > parts.silentAfterMs &&',
      },
    ],
  },
  // Claims and epochs.
  fault(
    'a notice of a newer claim is ignored',
    ACTOR,
    '      this.#supersededBy = Math.max(this.#supersededBy, epoch);',
    '      if (epoch > 0) return;',
  ),
  fault(
    'an older claim ends a newer one',
    ACTOR,
    "this.state !== 'starting' && this.epoch < this.#supersededBy",
    "this.state !== 'starting'",
  ),
  fault(
    'a claim that is older than one already heard of counts',
    ACTOR,
    '    if (epoch < this.#supersededBy) return this.#end(SUPERSEDED, undefined);\n',
    '',
  ),
  fault(
    'the previous connection on the same server goes on',
    CONNECTIONS,
    '    previous?.stop(SUPERSEDED, undefined);\n',
    '',
  ),
  fault(
    'the former owner is not notified of a claim',
    CONNECTIONS,
    'previous !== undefined && previous.nodeId !== bus.nodeId',
    'previous === null',
  ),
  fault(
    'a claim is released without a look at its epoch',
    CLAIMS,
    "held and string.sub(held, 1, string.len(ARGV[2]) + 1) == ARGV[2] .. ':'",
    'held',
  ),
  fault(
    'an announced claim replaces a newer one',
    CLAIMS,
    "if not claim or (tonumber(string.match(claim, '^%d+')) or 0) <= tonumber(epoch) then",
    'if 1 then',
  ),
  fault('claims are not announced when Redis is back', JOIN, '      directory.announce();\n', ''),
  fault(
    'a claim without Redis is never published',
    CLAIMS,
    '      this.#untold.add(bucket);\n      this.#tellAfter(RETRY_MS);\n    }\n    this.#lastEpoch',
    '    }\n    this.#lastEpoch',
  ),
  fault(
    'an outdated claim is found only by its other owner',
    CLAIMS,
    'if (claim.epoch > epoch) this.#onOutdated(id, claim.epoch);\n      else',
    'if (claim.epoch <= epoch)',
  ),
  fault(
    'claims of dead servers count',
    CLAIMS,
    'claim === undefined || this.#isGone(claim.nodeId) ? undefined : claim',
    'claim',
  ),
  fault(
    'an ended connection keeps its claim',
    REPORTS,
    '      .release(actor.deviceId, actor.epoch)',
    '      .release(actor.deviceId, 0)',
  ),
  fault(
    'a connection that ended before its claim keeps it',
    CONNECTIONS,
    '    await directory.release(deviceId, epoch);\n',
    '',
  ),
  fault('an ended actor stays in the registry', REPORTS, '    registry.remove(actor);\n', ''),
  fault(
    'an ended actor removes its successor',
    REGISTRY,
    'if (this.#actors.get(actor.deviceId) === actor) this.#actors',
    'this.#actors',
  ),
  fault(
    'epochs begin anew with Redis',
    CLAIMS,
    'return Math.max(this.#lastEpoch + 1, clock.now());',
    'return 1;',
  ),
  // Presence.
  fault(
    'a record of an older epoch replaces a newer one before it is written',
    WRITER,
    '    if (waiting !== undefined && waiting.epoch > record.epoch) return;\n',
    '',
  ),
  fault(
    'presence that could not be written is dropped',
    WRITER,
    'if (newer === undefined || newer.epoch < record.epoch) this.#presence.set(id, record);\n        else if',
    'if (newer === undefined) continue;\n        if',
  ),
  fault(
    'presence that could not be written replaces a newer one',
    WRITER,
    'if (newer === undefined || newer.epoch < record.epoch) this.#presence',
    'if (record.epoch > 0) this.#presence',
  ),
  fault(
    'nothing is written after a failed write until something new comes',
    WRITER,
    '      if (this.pending > 0) this.#schedule();\n',
    '',
  ),
  fault('devices of a lost server are not marked', LOST, '      this.#markAfter(GRACE_MS, nodeId);\n', ''),
  fault(
    'devices of a live server are marked as lost',
    LOST,
    '      if (nodes?.()?.has(nodeId) === true) return;\n',
    '',
  ),
  fault(
    'a device that has come back here is not reported again',
    LOST,
    'if (actor?.countsAsConnected === true) actor.republish();\n      // The node that has it now must say so, whether or not it shows the device.\n      else',
    "if (actor?.state !== 'gone')",
  ),
  fault(
    'devices of servers that were lost while none ran are not marked',
    LOST,
    '    if (this.#hasMarkedOrphans || alive === undefined) return;',
    '    if (alive === undefined || alive.size > 0) return;',
  ),
  fault(
    'a server does not mark what its earlier run left behind',
    HUB,
    'await store.markLost(options.nodes === undefined ? { allBut: [] } : { of: bus.nodeId });',
    '[] as Awaited<ReturnType<typeof store.markLost>>;',
  ),
  fault(
    'devices are not reported again after a return',
    HUB,
    '      for (const actor of registry.values()) actor.republish();\n',
    '',
  ),
  fault(
    'the end of a connection is not reported',
    ACTOR,
    '    if (this.#presence.epoch > 0 && presence !== undefined) this.#reportDisconnected(presence);\n',
    '',
  ),
  fault(
    'the end of a connection that had no claim yet is not reported',
    ACTOR,
    '    if (this.#endedBecause === undefined || epoch < this.#supersededBy) return;',
    '    if (epoch > 0) return;',
  ),
  fault(
    'the grace period has no end',
    ACTOR,
    "() => this.stop(undefined, 'socket_closed'), this.#limits.graceMs",
    '() => undefined, this.#limits.graceMs',
  ),
  fault(
    'a link that closed before the claim has no grace period',
    ACTOR,
    '    } else this.#startGrace();\n',
    '    }\n',
  ),
  fault(
    'a silent connection is kept',
    SWEEP,
    'actor.isConnected) actor.heartbeatMissed();',
    'actor.isConnected) actor.republish();',
  ),
  // Dashboards.
  {
    name: 'late presence of an older epoch is shown, and the server that knows better says nothing',
    changes: [
      { file: FEED, find: '    if (known !== undefined && known > epoch) return true;\n', put: '' },
      { file: HANDLERS, find: 'registry.get(event.deviceId)?.republish();', put: ';' },
    ],
  },
  fault(
    'a server that is back does not say what it has left behind',
    HUB,
    '        feed.changed(deviceId, { presence }, { epoch, isForAll: true });',
    'void lost;',
  ),
  fault(
    'changes are not sent to other servers',
    FEED,
    '      this.#others?.send(\n        recipients,',
    '      void ((..._some: unknown[]) => {})(\n        recipients,',
  ),
  // Commands.
  fault(
    'new work wakes only devices of this server',
    ROUTER,
    'if (this.#registry.get(notice.deviceId) === undefined) this.notifyOwner(notice);\n    else ',
    '',
  ),
  fault(
    'a device is not woken when it connects',
    REPORTS,
    '    if (!actor.isPending) this.#parts.dispatcher.wake(actor.deviceId);\n',
    '',
  ),
  fault(
    'a device is not woken when a command ends',
    DISPATCHER,
    "    if (event.kind === 'finished') this.wake(event.deviceId);\n",
    '',
  ),
  fault(
    'a device that was busy is not woken again',
    DISPATCHER,
    '    for (const deviceId of this.#postponed) this.wake(deviceId);\n',
    '',
  ),
  fault(
    'commands that a failed call has marked are not sent again',
    DISPATCHER,
    '      for (const { deviceId } of claims) this.#uncertain.add(deviceId);\n',
    '',
  ),
  fault(
    'a result is acknowledged before it is stored',
    DISPATCHER,
    '    this.#events.push({ event, onStored });\n',
    '    this.#events.push({ event, onStored: undefined });\n    onStored?.(true);\n',
  ),
  fault(
    'a result that cannot be stored is tried for ever',
    DISPATCHER,
    "if (kind === 'finished' && isSubstitute === undefined) {\n      return [{ event: { kind, id, deviceId, end: NOT_STORED }",
    "if (kind === 'finished') {\n      return [{ event: { kind, id, deviceId, end: event.end }",
  ),
  fault(
    'overdue and expired commands are not ended',
    DISPATCHER,
    'this.#changed(await this.#ledger.sweep());',
    '',
  ),
  fault(
    'commands of an older claim are sent',
    ACTOR,
    '!this.#linkOpen || command.epoch !== this.epoch',
    '!this.#linkOpen',
  ),
  fault(
    'receipts are not recorded',
    ACTOR,
    'this.#urgently(() => this.#events.command(receiptEvent({ id, deviceId }, answer))),',
    'this.#urgently(() => void [receiptEvent({ id, deviceId }, answer)]),',
  ),
  fault(
    'a busy device counts as one that has accepted',
    MESSAGES,
    "  if (answer.error.code === AgentErrorCode.busy) return { kind: 'postponed', id, deviceId };\n",
    "  if (answer.error.code === AgentErrorCode.busy) return { kind: 'accepted', id, deviceId };\n",
  ),
  fault(
    'a cancellation does not reach the device',
    ACTOR,
    '      if (this.#linkOpen) this.#link.sendCancel({ id });\n',
    '',
  ),
  fault(
    'a cancellation is not sent to other servers',
    ROUTER,
    '        return actor?.cancelCommand(notice.id);',
    '        return;',
  ),
  fault(
    'cancellations that were missed are not made up for',
    DISPATCHER,
    'this.#safely(() => this.#registry.get(deviceId)?.cancelCommand(id));',
    'void [id, deviceId];',
  ),
  // Live queries.
  fault(
    'queries to a lost server wait',
    ROUTER,
    '    parts.bus.onNodeLost((nodeId) => this.#remote.nodeLost(nodeId));\n',
    '',
  ),
  fault(
    'the end of a connection leaves its queries open',
    ACTOR,
    '      this.#queries?.failAll(failure);\n',
    '',
  ),
  fault(
    'a query has no time limit',
    ROUTER,
    "        () => cancel({ reason: 'timeout' }),\n",
    '        () => undefined,\n',
  ),
  fault(
    'a settled query is settled again and gets further rows',
    QUERIES,
    '    this.#queries.delete(query.id);\n    query.settle(outcomeOf(query, result));',
    '    query.settle(outcomeOf(query, result));',
  ),
  fault(
    'a remote query stays in memory',
    ROUTER,
    '    this.#open.delete(id);\n    query?.settle(outcome);',
    '    query?.settle(outcome);',
  ),
  fault(
    'a query to a device of no server waits',
    ROUTER,
    '    if (!isLocal && (owner === undefined || owner.nodeId === this.#nodeId)) {',
    '    if (!isLocal && owner === undefined) {',
  ),
  fault(
    'lost rows are not noticed by the server that asked',
    ROUTER,
    'rowCount !== undefined && rowCount !== query.rowsReceived',
    'rowCount === Number.NaN',
  ),
  fault(
    'an answer that could not be sent is not sent again',
    ROUTER,
    'if (delivered || this.#isClosed || attempt >= REPLY_ATTEMPTS) return;',
    'if (delivered || attempt > 0) return;',
  ),
  fault(
    'an answer of a device is given to whoever asked first',
    QUERIES,
    '    const query = this.#queries.get(result.id);\n    if (query === undefined || result.epoch',
    '    const query = [...this.#queries.values()][0];\n    if (query === undefined || result.epoch',
  ),
  fault(
    'rows go to whoever asked first',
    QUERIES,
    '    const query = this.#queries.get(frame.id);\n    // Late',
    '    const query = [...this.#queries.values()][0];\n    // Late',
  ),
  fault(
    'an aborted query stays open',
    ROUTER,
    "      const onAbort = () => cancel({ reason: 'cancelled' });",
    '      const onAbort = () => undefined;',
  ),
  // The machinery below.
  fault(
    'waiting messages stay when a turn has ended',
    MAILBOX,
    '      else if (this.depth > 0) this.#run();\n',
    '',
  ),
  fault(
    'messages that waited for the claim are not handled',
    MAILBOX,
    '    this.#held = false;\n    this.#run();',
    '    this.#held = false;',
  ),
  fault(
    'a server never notices that others are gone',
    BUS,
    '    for (const nodeId of lost) this.#tellLost(nodeId);\n  }\n\n  #beatAfter',
    '  }\n\n  #beatAfter',
  ),
  fault(
    'a server does not subscribe again',
    BUS,
    '    if (this.#closed) return;\n    this.#subscribe();',
    '    if (this.#closed) return;',
  ),
  fault(
    'after a loss of Redis all others count as lost at once',
    BUS,
    'lost.length > 0 && (isPartlyAway || clock.monotonic() < this.#quietUntil)',
    'lost.length < 0',
  ),
  fault(
    'the return of Redis is not noticed',
    BUS,
    '      for (const handler of this.#returnHandlers) handler();\n',
    '',
  ),
  fault(
    'another start of a program waits for a holder that is dead',
    GUARD,
    'return (await actor.answers(PROOF_MS)) ? actor.claimant : undefined;',
    'return actor.claimant;',
  ),
];
