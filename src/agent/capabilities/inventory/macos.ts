import { z } from 'zod';
import { AgentError } from '../../core/agent-error.ts';
import { Reading } from '../../core/plain-text.ts';
import { nonEmpty, type FoundSoftware, lastUserOf, type Collector, cleanDmi } from './sources.ts';
import type { Sources } from '../../os/machine-sources.ts';

/** `system_profiler` inspects each application, which takes long on a slow disk. */
const PROFILER_MS = 180_000;

const Text = z.string().optional();
const Profile = z.object({
  SPHardwareDataType: z
    .array(
      z.object({
        machine_model: Text,
        machine_name: Text,
        serial_number: Text,
        chip_type: Text,
        cpu_type: Text,
      }),
    )
    .default([]),
  SPDisplaysDataType: z.array(z.object({ sppci_model: Text, _name: Text })).default([]),
  SPApplicationsDataType: z
    .array(
      z.object({
        _name: z.string(),
        version: Text,
        path: Text,
        obtained_from: Text,
        lastModified: Text,
        signed_by: z.array(z.string()).optional(),
      }),
    )
    .optional(),
});
type Application = NonNullable<z.infer<typeof Profile>['SPApplicationsDataType']>[number];

const HARDWARE = ['SPHardwareDataType', 'SPDisplaysDataType'];

export const collectOnMacos: Collector = async (sources, { software, reading = new Reading() }) => {
  const profile = await reading.from('system_profiler', async () =>
    parseProfile(await sources.output('system_profiler', ['-json', ...HARDWARE])),
  );
  const machine = profile?.SPHardwareDataType[0];
  const graphics = profile?.SPDisplaysDataType[0];
  const mayFail = async (program: string, args: string[]) =>
    (await sources.output(program, args).catch(() => undefined)) ?? '';
  return {
    hardware: {
      manufacturer: 'Apple Inc.',
      model: cleanDmi(machine?.machine_model) ?? cleanDmi(machine?.machine_name),
      serialNumber: cleanDmi(machine?.serial_number),
      cpuModel: cleanDmi(machine?.chip_type) ?? cleanDmi(machine?.cpu_type),
      gpuModel: cleanDmi(graphics?.sppci_model) ?? cleanDmi(graphics?._name),
    },
    primaryInterface: /^\s*interface: (\S+)/m.exec(await mayFail('route', ['-n', 'get', 'default']))?.[1],
    lastUser: software ? lastUserOf(await mayFail('last', ['-50'])) : undefined,
    software: software ? await macosSoftware(sources, reading) : undefined,
  };
};

/** `undefined` if neither list could be read. */
async function macosSoftware(sources: Sources, reading: Reading): Promise<FoundSoftware[] | undefined> {
  const applications = await reading.from(
    'applications',
    async () => {
      const args = ['-json', 'SPApplicationsDataType'];
      return parseProfile(await sources.output('system_profiler', args, PROFILER_MS)).SPApplicationsDataType;
    },
    PROFILER_MS + 10_000,
  );
  const packages = await reading.from('pkgutil', async () =>
    parsePackages((await sources.output('pkgutil', PKGUTIL)) ?? ''),
  );
  if (applications === undefined && packages === undefined) return undefined;
  return [
    ...(applications ?? [])
      .filter(isForPeople)
      .map((one) => ({ ...application(one), source: 'applications' })),
    ...(packages ?? []).map((one) => ({ ...one, source: 'pkgutil' })),
  ];
}

const PKGUTIL = ['--regexp', '--pkg-info', '^(?!com\\.apple\\.).*'];

function parseProfile(output: string | undefined): z.infer<typeof Profile> {
  try {
    return Profile.parse(JSON.parse(output ?? '{}'));
  } catch (error) {
    throw new AgentError('FAILED', `The output of system_profiler could not be parsed: ${String(error)}`);
  }
}

/** The system has hundreds of helper applications, which change with each of its releases. */
const isForPeople = ({ path = '' }: Application) =>
  !/^\/(System\/Library|usr|Library\/Image Capture)\//.test(path);

function application({ _name, version, obtained_from, lastModified, signed_by }: Application): FoundSoftware {
  const at = Date.parse(lastModified ?? '');
  return {
    name: _name,
    version: nonEmpty(version),
    publisher: obtained_from === 'apple' ? 'Apple' : signer(signed_by?.[0]),
    installedAt: Number.isNaN(at) ? undefined : at,
  };
}

/** `Developer ID Application: Mozilla Corporation (43AQ936H96)` */
const signer = (text: string | undefined) =>
  nonEmpty(/^(?:Developer ID Application|Apple Distribution): (.+?)(?: \(\w+\))?$/.exec(text ?? '')?.[1]);

/** The output of `pkgutil --pkg-info`: a block of `key: value` lines for each package. */
export function parsePackages(output: string): FoundSoftware[] {
  return output.split(/\n(?=package-id: )/).flatMap((block) => {
    const value = (key: string) => new RegExp(`^${key}: (.*)$`, 'm').exec(block)?.[1];
    const name = nonEmpty(value('package-id'));
    const seconds = Number(value('install-time'));
    return name === undefined
      ? []
      : [
          {
            name,
            version: nonEmpty(value('version')),
            installedAt: seconds > 0 ? seconds * 1000 : undefined,
          },
        ];
  });
}
