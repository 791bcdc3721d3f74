import {
  ACTOR,
  ADMISSION,
  CLAIMS,
  CONNECTIONS,
  DISPATCHER,
  fault,
  HUB,
  JOIN,
  LOST,
  REGISTRY,
  REPORTS,
  SWEEP,
  type PlantedFault,
} from './fault.ts';

/** Faults of real clusters, and faults of claims and epochs. */
export const OF_CLAIMS: readonly PlantedFault[] = [
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
    "if not claim or (tonumber(string.match(claim, '^%d+')) or 0) < tonumber(epoch) then",
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
  fault(
    'an announced claim replaces an equal one, whose server does not hear of it',
    CLAIMS,
    'or 0) < tonumber(epoch) then',
    'or 0) <= tonumber(epoch) then',
  ),
  fault(
    'equal claims of two servers are not made again',
    CLAIMS,
    'else if (claim.epoch === epoch) this.#onTied(id);',
    'else if (claim.epoch === epoch) continue;',
  ),
];
