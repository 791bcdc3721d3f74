/** A small library of useful scripts. Some have run already. */
export const SCRIPTS = [
  {
    name: 'Free space on the system disk',
    description: 'Removes what Windows Update and the browsers can fetch again.',
    language: 'powershell',
    osTypes: ['windows'],
    content:
      'Remove-Item $env:TEMP\\* -Recurse -Force -ErrorAction SilentlyContinue\nGet-PSDrive C | Select-Object Used, Free\n',
    runsOn: { osType: 'windows', devices: 8 },
  },
  {
    name: 'Restart the print spooler',
    description: null,
    language: 'powershell',
    osTypes: ['windows'],
    content: 'Restart-Service -Name Spooler\nGet-Service -Name Spooler\n',
    runsOn: { osType: 'windows', devices: 2 },
  },
  {
    name: 'Pending security updates',
    description: 'Counts the packages of Debian’s security archive that wait.',
    language: 'bash',
    osTypes: ['linux'],
    content: "apt-get --just-print upgrade | grep -c '^Inst.*security' || true\n",
    runsOn: { osType: 'linux', devices: 6 },
  },
  {
    name: 'Who is signed in',
    description: null,
    language: 'bash',
    osTypes: ['linux', 'macos'],
    content: 'who -u\n',
  },
  {
    name: 'Services that have failed',
    description: 'Fails if systemd has given up on a service, so that such devices are found by the outcome.',
    language: 'bash',
    osTypes: ['linux'],
    content:
      'failed=$(systemctl list-units --state=failed --no-legend --plain | cut -d " " -f 1)\n[ -z "$failed" ] && { echo "None"; exit 0; }\necho "$failed"\nexit 1\n',
  },
  {
    name: 'Largest folders',
    description: 'The ten largest folders below one.',
    parameters: [{ name: 'FOLDER', description: 'Where it looks.', defaultValue: '/var' }],
    language: 'bash',
    osTypes: ['linux', 'macos'],
    content: 'du -x -k "$PARAM_FOLDER" 2>/dev/null | sort -rn | head -n 10\n',
  },
  {
    name: 'A restart is pending',
    description: 'Whether Windows waits for a restart, and for how long it has run.',
    language: 'powershell',
    osTypes: ['windows'],
    content:
      "$keys = 'HKLM:\\SOFTWARE\\Microsoft\\Windows\\CurrentVersion\\Component Based Servicing\\RebootPending',\n  'HKLM:\\SOFTWARE\\Microsoft\\Windows\\CurrentVersion\\WindowsUpdate\\Auto Update\\RebootRequired'\n$isPending = @($keys | Where-Object { Test-Path $_ }).Count -gt 0\n\"Pending: $isPending\"\n(Get-Date) - (Get-CimInstance Win32_OperatingSystem).LastBootUpTime | Select-Object Days, Hours\n",
  },
  {
    name: 'Certificates that end soon',
    description: 'Those of the machine that end within some days.',
    parameters: [{ name: 'DAYS', type: 'number', description: 'Within so many days.', defaultValue: '30' }],
    language: 'powershell',
    osTypes: ['windows'],
    content:
      '$days = [int]$env:PARAM_DAYS\nGet-ChildItem Cert:\\LocalMachine\\My | Where-Object { $_.NotAfter -lt (Get-Date).AddDays($days) } |\n  Sort-Object NotAfter | Select-Object NotAfter, Subject | Format-Table -AutoSize\n',
  },
] as const;
