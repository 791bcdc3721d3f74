import { z } from 'zod';
import { AgentConfig } from './agent-messages.ts';
import { HardwareAddress, HostName, MachineIdentity } from './machine-identity.ts';
import { Architecture, cutLine, OsType, reportedName, reportedText, text } from './primitives.ts';

/** How an agent gets its tokens, over HTTP: `POST /api/v1/agents/enroll` and `/agents/:id/token/rotate`. */

export const Hardware = z
  .object({
    manufacturer: reportedName(255, 0),
    model: reportedName(255, 0),
    serialNumber: cutLine(255),
    cpuModel: reportedName(255, 0),
    cpuCores: z.number().int().positive(),
    ramTotalMb: z.number().nonnegative(),
    diskTotalGb: z.number().nonnegative(),
    gpuModel: reportedName(255, 0),
  })
  .partial();
export type Hardware = z.infer<typeof Hardware>;

export const Network = z
  .object({
    ipAddress: reportedText(45, 0),
    publicIp: reportedText(45, 0),
    macAddress: HardwareAddress,
    macAddresses: MachineIdentity.shape.macAddresses.unwrap(),
  })
  .partial();
export type Network = z.infer<typeof Network>;

export const EnrollRequest = z.object({
  enrollmentKey: text(64),
  hostname: HostName.min(1),
  osType: OsType,
  osVersion: reportedName(200),
  osBuild: reportedName(100, 0).nullish(),
  architecture: Architecture,
  agentVersion: reportedText(50),
  machineId: text(128, 0)
    .nullish()
    .describe(
      'A machine that enrolls again with the same id keeps its device, unless a connected device has it: then the request needs the token of that device (`Authorization: Bearer`). An id that many machines share, such as all zeros, is ignored.',
    ),
  hardware: Hardware.optional(),
  network: Network.optional(),
  capabilities: z.array(reportedText(64)).max(100).optional(),
});
export type EnrollRequest = z.infer<typeof EnrollRequest>;

export const EnrollResponse = z.object({
  agentId: z.uuid(),
  deviceId: z.uuid(),
  orgId: z.uuid(),
  siteId: z.uuid(),
  token: z.string().describe('Returned once; the server stores only its hash.'),
  status: z
    .enum(['enrolled', 'pending'])
    .optional()
    .describe('`pending`: the device must be approved before it gets any work.'),
  config: AgentConfig.extend({
    hubUrl: z.string().describe('The absolute URL of the socket for agents.'),
  }),
});
export type EnrollResponse = z.infer<typeof EnrollResponse>;

export const RotateTokenResponse = z.object({
  token: z.string().describe('Returned once. The previous token stays valid until this one is used.'),
});
export type RotateTokenResponse = z.infer<typeof RotateTokenResponse>;
