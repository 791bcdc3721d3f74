import { downloadUrl, type Installer, powershellWord } from './installer.ts';

/**
 * `install.ps1`, for Windows PowerShell 5.1 and newer. Pure. It defines functions and calls one in its last line, so that
 * a download that was cut off does nothing.
 */
export function powershellInstaller({ server, key, programs }: Installer): string {
  const entries = programs
    .filter(({ os }) => os === 'windows')
    .map(
      (program) =>
        `    ${powershellWord(program.architecture)} = @{ Url = ${powershellWord(downloadUrl(server, program))}; Version = ${powershellWord(program.version)}; Sha256 = ${powershellWord(program.sha256)} }\n`,
    );
  return `# Installs the Muster agent on Windows. Read it before you run it.
# Install, as administrator:   irm ${server}/install.ps1 | iex; Install-MusterAgent -Key KEY
# Uninstall:                   irm ${server}/install.ps1 | iex; Uninstall-MusterAgent
# For a mass rollout, set MUSTER_ENROLLMENT_KEY and run: irm ${server}/install.ps1 | iex

function Get-MusterSource {
  @{
    Server   = ${powershellWord(server)}
    Key      = ${powershellWord(key)}
    Programs = @{
${entries.join('').replaceAll(/^/gm, '  ').trimEnd()}
    }
  }
}
${BODY}`;
}

/** The part that is the same on every server. */
const BODY = String.raw`
function Get-MusterPlace([string] $Programs, [string] $DataDir) {
  if (-not $Programs) { $Programs = $env:MUSTER_PROGRAMS }
  if (-not $Programs) { $Programs = Join-Path $env:ProgramFiles 'Muster' }
  if (-not $DataDir) { $DataDir = $env:MUSTER_AGENT_DIR }
  if (-not $DataDir) { $DataDir = Join-Path $env:ProgramData 'muster-agent' }
  $agent = $null
  $current = Join-Path $Programs 'watchdog\current.json'
  if (Test-Path -LiteralPath $current) {
    $version = (Get-Content -LiteralPath $current -Raw | ConvertFrom-Json).version
    $agent = Join-Path $Programs "watchdog\$version\muster-agent.exe"
    if (-not (Test-Path -LiteralPath $agent)) { $agent = $null }
  }
  @{ Programs = $Programs; DataDir = $DataDir; Agent = $agent }
}

function Assert-MusterAdministrator {
  $identity = [Security.Principal.WindowsIdentity]::GetCurrent()
  $principal = New-Object Security.Principal.WindowsPrincipal $identity
  if (-not $principal.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)) {
    throw 'This needs the rights of an administrator: start PowerShell with "Run as administrator".'
  }
}

function Invoke-MusterAgent([string] $Program, [string[]] $Words, [string] $What) {
  & $Program @Words | Out-Null
  if ($LASTEXITCODE -ne 0) { throw "$What failed with exit code $LASTEXITCODE." }
}

function Get-MusterProgram([hashtable] $Source, [hashtable] $Place, [string] $Folder) {
  $architecture = if ($env:PROCESSOR_ARCHITECTURE -eq 'ARM64' -or $env:PROCESSOR_ARCHITEW6432 -eq 'ARM64') { 'arm64' } else { 'x64' }
  $program = $Source.Programs[$architecture]
  if (-not $program) {
    throw "This server has no agent for windows-$architecture. Its operator publishes one with: muster releases add, muster releases promote."
  }
  Write-MusterLine "Downloading muster-agent $($program.Version) for windows $architecture from $($Source.Server)"
  $file = Join-Path $Folder 'muster-agent.exe'
  [Net.ServicePointManager]::SecurityProtocol = [Net.ServicePointManager]::SecurityProtocol -bor [Net.SecurityProtocolType]::Tls12
  Invoke-WebRequest -UseBasicParsing -Uri $program.Url -OutFile $file
  $stream = [IO.File]::OpenRead($file)
  try { $start = @($stream.ReadByte(), $stream.ReadByte()) } finally { $stream.Dispose() }
  if ($start[0] -ne 0x4D -or $start[1] -ne 0x5A) {
    throw "What came from $($program.Url) is not a program. Does the network ask for a sign-in in a browser first?"
  }
  $found = (Get-FileHash -LiteralPath $file -Algorithm SHA256).Hash.ToLowerInvariant()
  if ($found -ne $program.Sha256) {
    throw "The program from $($program.Url) has the SHA-256 $found, and not $($program.Sha256). Nothing was installed."
  }
  $file
}

function Write-MusterLine([string] $Text) {
  if (-not $env:MUSTER_QUIET) { Write-Host $Text }
}

function Install-MusterAgent {
  param([string] $Key, [string] $Programs, [string] $DataDir, [switch] $Quiet, [switch] $InsecureHttp)
  $ErrorActionPreference = 'Stop'
  $ProgressPreference = 'SilentlyContinue'
  Assert-MusterAdministrator
  if ($Quiet) { $env:MUSTER_QUIET = '1' }
  $source = Get-MusterSource
  $place = Get-MusterPlace $Programs $DataDir
  if (-not $Key) { $Key = $env:MUSTER_ENROLLMENT_KEY }
  if (-not $Key) { $Key = $source.Key }
  $folder = $null
  try {
    $agent = $place.Agent
    if ($agent) {
      Write-MusterLine "muster-agent is installed in $($place.Programs); its watchdog keeps it up to date."
    } else {
      Write-MusterLine "This installs muster-agent into $($place.Programs), with its files in $($place.DataDir), and enrolls this machine at $($source.Server)."
      New-Item -ItemType Directory -Force -Path $place.Programs | Out-Null
      $folder = Join-Path $place.Programs ('installing.' + [Guid]::NewGuid().ToString('N'))
      New-Item -ItemType Directory -Path $folder | Out-Null
      $agent = Get-MusterProgram $source $place $folder
    }
    $status = & $agent status --data-dir $place.DataDir --json | Out-String
    if ($status.Contains('"server":"' + $source.Server + '"')) {
      Write-MusterLine "This machine is already enrolled at $($source.Server)."
    } else {
      if (-not $Key) { throw 'Give an enrollment key: Install-MusterAgent -Key KEY, or MUSTER_ENROLLMENT_KEY.' }
      $words = @('enroll', '--server', $source.Server, '--data-dir', $place.DataDir)
      if ($InsecureHttp) { $words += '--insecure-http' }
      # By the environment: other users of this machine can read the command lines of programs.
      $env:MUSTER_ENROLLMENT_KEY = $Key
      try { Invoke-MusterAgent $agent $words 'The enrollment' } finally { $env:MUSTER_ENROLLMENT_KEY = $null }
      Write-MusterLine "This machine is now enrolled at $($source.Server)."
    }
    Invoke-MusterAgent $agent @('service', 'install', '--programs', $place.Programs, '--data-dir', $place.DataDir) 'Installing the service'
    Write-MusterLine 'The service is installed. Waiting until the server knows this machine as connected.'
    $agent = (Get-MusterPlace $place.Programs $place.DataDir).Agent
    for ($second = 0; $second -lt 60; $second++) {
      & $agent status --data-dir $place.DataDir | Out-Null
      if ($LASTEXITCODE -eq 0) {
        Write-MusterLine "This machine is connected to $($source.Server)."
        return
      }
      Start-Sleep -Seconds 1
    }
    throw "The agent is installed but has not connected. Find out why with: & '$agent' doctor"
  } finally {
    if ($folder) { Remove-Item -LiteralPath $folder -Recurse -Force -ErrorAction SilentlyContinue }
  }
}

function Uninstall-MusterAgent {
  param([string] $Programs, [string] $DataDir, [switch] $KeepData, [switch] $Quiet)
  $ErrorActionPreference = 'Stop'
  Assert-MusterAdministrator
  if ($Quiet) { $env:MUSTER_QUIET = '1' }
  $place = Get-MusterPlace $Programs $DataDir
  if (-not $place.Agent) {
    Write-MusterLine "muster-agent is not installed in $($place.Programs)."
    return
  }
  Write-MusterLine "This removes muster-agent from $($place.Programs), and its files from $($place.DataDir)."
  Invoke-MusterAgent $place.Agent @('service', 'remove', '--programs', $place.Programs, '--data-dir', $place.DataDir) 'Removing the service'
  $words = @('unenroll', '--data-dir', $place.DataDir, '--force')
  if ($KeepData) { $words += '--keep-data' }
  Invoke-MusterAgent $place.Agent $words 'Leaving the server'
  foreach ($name in 'watchdog', 'agent') {
    $old = Join-Path $place.Programs $name
    if (Test-Path -LiteralPath $old) { Remove-Item -LiteralPath $old -Recurse -Force }
  }
  Write-MusterLine 'muster-agent is removed.'
}

if ($env:MUSTER_ENROLLMENT_KEY -or (Get-MusterSource).Key) { Install-MusterAgent }
`;
