import os from 'node:os';
import type { Architecture, EnrollRequest } from '../../../protocol/index.ts';
import { AGENT_VERSION } from '../../core/version.ts';
import { machineId } from '../../os/machine/machine-id.ts';
import { osType } from '../../os/machine/os-type.ts';
import { osVersion } from '../../os/machine/os-version.ts';
import { collectFacts } from './collect.ts';
import { machineSources } from './sources.ts';

/** What the agent reports about its machine when it enrolls. */
export async function describeMachine(): Promise<Omit<EnrollRequest, 'enrollmentKey'>> {
  const id = await machineId();
  return {
    hostname: os.hostname(),
    osType: osType(),
    osVersion: await osVersion(),
    osBuild: os.release(),
    architecture: architecture(),
    agentVersion: AGENT_VERSION,
    ...(await collectFacts(machineSources())),
    ...(id === undefined ? {} : { machineId: id }),
  };
}

function architecture(): Architecture {
  const name = os.arch();
  return name === 'arm64' ? 'arm64' : name === 'ia32' ? 'x86' : 'x64';
}
