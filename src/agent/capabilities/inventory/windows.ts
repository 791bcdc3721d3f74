import { z } from 'zod';
import { AgentError } from '../../core/agent-error.ts';
import { Reading } from '../../core/plain-text.ts';
import { nonEmpty, type FoundSoftware, type Collector, cleanDmi } from './sources.ts';
import { runPowerShell } from '../../os/machine-sources.ts';

/**
 * One script reads everything, because starting PowerShell takes longer than running it. It prints JSON, where a list
 * that could not be read is null instead of empty.
 */
export const WINDOWS_SCRIPT = String.raw`
$ErrorActionPreference = 'SilentlyContinue'
[Console]::OutputEncoding = [Text.UTF8Encoding]::new($false)
$computer = Get-CimInstance Win32_ComputerSystem
$bios = Get-CimInstance Win32_BIOS
$processors = @(Get-CimInstance Win32_Processor)
$graphics = @(Get-CimInstance Win32_VideoController | Where-Object { $_.PNPDeviceID -like 'PCI*' })
$route = Get-CimInstance Win32_IP4RouteTable -Filter "Destination='0.0.0.0' AND Mask='0.0.0.0'" | Sort-Object Metric1 | Select-Object -First 1
$adapter = if ($route) { Get-CimInstance Win32_NetworkAdapter -Filter "InterfaceIndex=$($route.InterfaceIndex)" }
$logon = Get-ItemProperty 'HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\Authentication\LogonUI'
$software = $null
if ($WithSoftware) {
  $uninstall = 'SOFTWARE\Microsoft\Windows\CurrentVersion\Uninstall'
  try {
    $entries = @(Get-ChildItem "HKLM:\$uninstall" -ErrorAction Stop | ForEach-Object { Get-ItemProperty $_.PSPath })
    $entries += @(Get-ItemProperty "HKLM:\SOFTWARE\WOW6432Node\Microsoft\Windows\CurrentVersion\Uninstall\*")
    $entries += @(Get-ItemProperty "Registry::HKEY_USERS\*\$uninstall\*")
    $software = @($entries | Where-Object { $_.DisplayName -and $_.SystemComponent -ne 1 -and -not $_.ParentKeyName } |
      ForEach-Object { @{ name = "$($_.DisplayName)"; version = "$($_.DisplayVersion)"; publisher = "$($_.Publisher)"; installed = "$($_.InstallDate)" } })
  } catch { }
}
@{
  manufacturer = $computer.Manufacturer; model = $computer.Model; serial = $bios.SerialNumber
  processor = $processors[0].Name; graphics = $graphics[0].Name
  interface = $adapter.NetConnectionID; user = $(if ($computer.UserName) { $computer.UserName } else { $logon.LastLoggedOnSAMUser })
  software = $software
} | ConvertTo-Json -Depth 4 -Compress
`;

/** A cold start of PowerShell with CIM takes some ten seconds. */
const POWERSHELL_MS = 90_000;

const Text = z.string().nullish();
const Answer = z.object({
  manufacturer: Text,
  model: Text,
  serial: Text,
  processor: Text,
  graphics: Text,
  interface: Text,
  user: Text,
  software: z
    .array(z.object({ name: z.string(), version: Text, publisher: Text, installed: Text }))
    .nullish(),
});

export const collectOnWindows: Collector = async (sources, { software, reading = new Reading() }) => {
  const script = `$WithSoftware = $${software}\n${WINDOWS_SCRIPT}`;
  const found: z.infer<typeof Answer> =
    (await reading.from(
      'powershell',
      async () => parseWindows((await runPowerShell(sources, script, POWERSHELL_MS)) ?? '{}'),
      POWERSHELL_MS + 10_000,
    )) ?? {};
  if (software && found.software === null) {
    reading.fails('programs', 'The list of installed programs could not be read from the registry.');
  }
  return {
    hardware: {
      manufacturer: cleanDmi(found.manufacturer),
      model: cleanDmi(found.model),
      serialNumber: cleanDmi(found.serial),
      cpuModel: cleanDmi(found.processor),
      gpuModel: cleanDmi(found.graphics),
    },
    primaryInterface: nonEmpty(found.interface),
    lastUser: nonEmpty(found.user),
    software: found.software?.map(
      ({ name, version, publisher, installed }): FoundSoftware => ({
        name,
        version: nonEmpty(version),
        publisher: nonEmpty(publisher),
        installedAt: installDate(installed),
      }),
    ),
  };
};

function parseWindows(output: string): z.infer<typeof Answer> {
  try {
    return Answer.parse(JSON.parse(output.replace(/^\uFEFF/, '')));
  } catch (error) {
    throw new AgentError('FAILED', `The output of PowerShell could not be parsed: ${String(error)}`);
  }
}

/** Most installers write a date such as `20260115`; other forms are left out. */
function installDate(text: string | null | undefined): number | undefined {
  const found = /^(\d{4})(\d{2})(\d{2})$/.exec(text ?? '');
  const at = found === null ? Number.NaN : Date.parse(`${found[1]}-${found[2]}-${found[3]}T00:00:00Z`);
  return Number.isNaN(at) ? undefined : at;
}
