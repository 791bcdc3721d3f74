import { ACTOR, fault, FEED, HANDLERS, HUB, LOST, SWEEP, WRITER, type PlantedFault } from './fault.ts';

/** Faults of presence and of what dashboards show of it. */
export const OF_PRESENCE: readonly PlantedFault[] = [
  // Presence.
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
    'what a server took over and died before it had written stays as it was',
    HUB,
    '    onTakenOver: (deviceId, epoch) => lostDevices.takenOver(deviceId, epoch),\n',
    '',
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
    '() => this.stop(undefined, this.#linkLoss), this.#limits.graceMs',
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
  fault(
    'device lists are not read again after a server was lost',
    HUB,
    '  bus.onNodeLost(() => eventHandlers.resyncLater());\n',
    '',
  ),
  fault(
    'the others do not hear that they may have missed changes',
    HUB,
    'dispatcher.wake(deviceId);\n          announcements.missed();',
    'dispatcher.wake(deviceId);',
  ),
  fault(
    'a server that begins to show devices is not sent what has just changed',
    FEED,
    "others?.interest.onWidened('devices', (nodeId, isNew) => this.#sendMissed(nodeId, isNew));",
    'void [() => this.#sendMissed];',
  ),
  fault(
    'a disconnection that was written late is not shown again',
    WRITER,
    '        if (this.lateMs >= LATE_MS) this.#late(batch);\n',
    '',
  ),
  fault(
    'device lists are not read again after a server has started',
    HUB,
    '        clock.setTimeout(() => announcements.missed(), AFTER_START_MS).unref();\n',
    '',
  ),
];
