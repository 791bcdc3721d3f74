# Records what the Muster agent reads on Windows, so that Muster can be tested with the output of real machines.
# It changes nothing on this machine but the folder that it writes. What it is for, and what to do with the folder:
# docs/record-windows.md.
#
# Run it in PowerShell as administrator:  powershell -ExecutionPolicy Bypass -File record-windows.ps1
param([string]$Folder = (Join-Path ([Environment]::GetFolderPath('Desktop')) 'muster-recording'))

$ErrorActionPreference = 'Stop'
if (Test-Path -LiteralPath $Folder) { throw "The folder $Folder exists. Name another one: -Folder NAME" }
$null = New-Item -ItemType Directory -Path $Folder
$system = Join-Path $env:SystemRoot 'System32'
$powershell = Join-Path $system 'WindowsPowerShell\v1.0\powershell.exe'

# --- Recording. Each program writes bytes into a file, because PowerShell would change their encoding.

function Record([string]$Name, [string]$Program, [string[]]$Words) {
  $output = Join-Path $Folder $Name
  $line = ($Words | ForEach-Object { if ($_ -match '[\s"&|<>^()]') { '"' + ($_ -replace '"', '\"') + '"' } else { $_ } }) -join ' '
  try {
    $process = Start-Process -FilePath $Program -ArgumentList $line -NoNewWindow -Wait -PassThru -RedirectStandardOutput $output -RedirectStandardError "$output.errors"
    "$Name`t$($process.ExitCode)`t$([IO.Path]::GetFileName($Program)) $line" | Add-Content -LiteralPath (Join-Path $Folder 'calls.tsv') -Encoding UTF8
    if ((Get-Item -LiteralPath "$output.errors").Length -eq 0) { Remove-Item -LiteralPath "$output.errors" }
  } catch {
    Write-Warning "$Name was not recorded: $_"
  }
}

function RecordScript([string]$Name, [string]$Script) {
  $encoded = [Convert]::ToBase64String([Text.Encoding]::Unicode.GetBytes($Script))
  Record $Name $powershell @('-NoLogo', '-NoProfile', '-NonInteractive', '-ExecutionPolicy', 'Bypass', '-EncodedCommand', $encoded)
}

# The agent's own scripts; test/unit/agent/os/recorded-windows.test.ts compares them with its code.
$inventory = @'
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
'@
$logStates = @'
$ErrorActionPreference = 'SilentlyContinue'
$ProgressPreference = 'SilentlyContinue'
[Console]::OutputEncoding = [Text.UTF8Encoding]::new($false)
$session = [Diagnostics.Eventing.Reader.EventLogSession]::GlobalSession
$states = @(foreach ($name in (ConvertFrom-Json -InputObject $env:MUSTER_LOGS)) {
  $settings = [Diagnostics.Eventing.Reader.EventLogConfiguration]::new($name)
  $state = $session.GetLogInformation($name, 'LogName')
  @{
    name = "$name"; count = "$($state.RecordCount)"; maxSize = "$($settings.MaximumSizeInBytes)"
    written = $(if ($state.LastWriteTime) { $state.LastWriteTime.ToUniversalTime().ToString('o') } else { '' })
  }
})
[Console]::Out.WriteLine((ConvertTo-Json -InputObject $states -Depth 3 -Compress))
'@

Write-Host 'The machine ...'
RecordScript 'inventory.json' ("`$WithSoftware = `$true`n" + $inventory)
Record 'whoami-user.csv' (Join-Path $system 'whoami.exe') @('/user', '/fo', 'csv', '/nh')
Record 'whoami-groups.txt' (Join-Path $system 'whoami.exe') @('/groups')
Record 'systeminfo.txt' (Join-Path $system 'systeminfo.exe') @()
Record 'tasklist.csv' (Join-Path $system 'tasklist.exe') @('/fo', 'csv')
RecordScript 'sddl-programdata.txt' '(Get-Acl -LiteralPath $env:ProgramData).Sddl'
Record 'vssadmin-writers.txt' (Join-Path $system 'vssadmin.exe') @('list', 'writers')
Record 'vssadmin-providers.txt' (Join-Path $system 'vssadmin.exe') @('list', 'providers')

Write-Host 'The event logs ...'
$wevtutil = Join-Path $system 'wevtutil.exe'
Record 'wevtutil-el.txt' $wevtutil @('el', '/uni:true')
Record 'wevtutil-ep.txt' $wevtutil @('ep', '/uni:true')
$logs = 'Application', 'System', 'Security', 'Setup', 'Microsoft-Windows-TaskScheduler/Operational',
  'Microsoft-Windows-WindowsUpdateClient/Operational', 'Microsoft-Windows-PowerShell/Operational'
$env:MUSTER_LOGS = ConvertTo-Json -InputObject @($logs | Select-Object -First 3) -Compress
RecordScript 'log-states.json' $logStates
foreach ($log in $logs) {
  $name = $log -replace '[^A-Za-z]+', '-'
  Record "wevtutil-gl-$name.txt" $wevtutil @('gl', $log, '/uni:true')
  Record "wevtutil-gli-$name.txt" $wevtutil @('gli', $log, '/uni:true')
  Record "events-plain-$name.xml" $wevtutil @('qe', $log, '/q:*', '/rd:true', '/c:300', '/f:XML', '/uni:true')
  Record "events-rendered-$name.xml" $wevtutil @('qe', $log, '/q:*', '/rd:true', '/c:300', '/f:RenderedXml', '/uni:true')
}

if (Get-Command Get-VM -ErrorAction SilentlyContinue) {
  Write-Host 'Hyper-V ...'
  RecordScript 'hyperv-machines.json' 'Get-VM | Select-Object Id, Name, State, Generation, MemoryAssigned, MemoryStartup, ProcessorCount, CreationTime | ConvertTo-Json -Depth 3'
  RecordScript 'hyperv-disks.json' 'Get-VM | Get-VMHardDiskDrive | Select-Object VMId, Path, DiskNumber, ControllerType, ControllerNumber, ControllerLocation | ConvertTo-Json -Depth 3'
}

# --- Personal details are replaced, always by the same, so that what belongs together stays together.

Write-Host 'Personal details are replaced ...'
$replacements = [ordered]@{}
function Replace-Text([string]$Text, [string]$With) {
  if ($Text -and $Text.Trim().Length -ge 3 -and -not $replacements.Contains($Text.Trim())) { $replacements[$Text.Trim()] = $With }
}
$computer = Get-CimInstance Win32_ComputerSystem
Replace-Text $env:COMPUTERNAME 'MACHINE-1'
if ($computer.PartOfDomain) { Replace-Text $computer.Domain 'corp.example'; Replace-Text ($computer.Domain -split '\.')[0] 'CORP' }
Replace-Text (Get-CimInstance Win32_BIOS).SerialNumber 'SERIAL0001'
Replace-Text (Get-CimInstance Win32_ComputerSystemProduct).UUID '00000000-0000-0000-0000-000000000001'
$number = 0
$people = @(Get-CimInstance Win32_UserProfile | Where-Object { -not $_.Special } | ForEach-Object { Split-Path $_.LocalPath -Leaf })
$people += @(Get-CimInstance Win32_UserAccount -Filter 'LocalAccount=True' | ForEach-Object { $_.Name; $_.FullName })
foreach ($person in ($people | Where-Object { $_ -and $_ -notin 'Administrator', 'Guest', 'DefaultAccount', 'Public' } | Select-Object -Unique)) {
  $number++
  Replace-Text $person "person$number"
}

$found = @{}
function Numbered([string]$Text, [string]$Form) {
  if (-not $found.ContainsKey($Text)) { $found[$Text] = $Form -f ($found.Count + 1) }
  $found[$Text]
}
function WithoutDetails([string]$Text) {
  foreach ($entry in $replacements.GetEnumerator()) {
    $Text = [regex]::Replace($Text, [regex]::Escape($entry.Key), $entry.Value.Replace('$', '$$'), 'IgnoreCase')
  }
  $Text = [regex]::Replace($Text, 'S-1-5-21(-\d+){3}', { Numbered $args[0].Value 'S-1-5-21-1000000000-2000000000-{0}' })
  $Text = [regex]::Replace($Text, '[\w.+-]+@[\w-]+(\.[\w-]+)+', { Numbered $args[0].Value 'person{0}@example.com' })
  $Text = [regex]::Replace($Text, '\b(?!127\.|0\.|255\.)(\d{1,3}\.){3}\d{1,3}\b(?!\.\d)', {
      if ($args[0].Value -match '^10\.0\.\d{5}') { $args[0].Value } else { Numbered $args[0].Value '192.0.2.{0}' } })
  $Text = [regex]::Replace($Text, '\b([0-9A-F]{2}[:-]){5}[0-9A-F]{2}\b', { Numbered $args[0].Value '02-00-00-00-00-{0:X2}' }, 'IgnoreCase')
  [regex]::Replace($Text, '\b(fe80|fd|2[0-9a-f]{3})[0-9a-f]*:[0-9a-f:]+(%\d+)?', { Numbered $args[0].Value '2001:db8::{0}' }, 'IgnoreCase')
}

function EncodingOf([byte[]]$Bytes) {
  if ($Bytes.Length -gt 1 -and (($Bytes[0] -eq 0xFF -and $Bytes[1] -eq 0xFE) -or $Bytes[1] -eq 0)) { return [Text.UnicodeEncoding]::new($false, $false) }
  $strict = [Text.UTF8Encoding]::new($false, $true)
  try { $null = $strict.GetString($Bytes); return $strict } catch { }
  [Text.Encoding]::GetEncoding([Globalization.CultureInfo]::CurrentCulture.TextInfo.OEMCodePage)
}
foreach ($file in Get-ChildItem -LiteralPath $Folder -File) {
  $bytes = [IO.File]::ReadAllBytes($file.FullName)
  $encoding = EncodingOf $bytes
  [IO.File]::WriteAllBytes($file.FullName, $encoding.GetBytes((WithoutDetails $encoding.GetString($bytes))))
}

@{ recorder = 1; os = [Environment]::OSVersion.VersionString; culture = (Get-UICulture).Name; codePage = [Console]::OutputEncoding.CodePage } |
  ConvertTo-Json | Set-Content -LiteralPath (Join-Path $Folder 'about.json') -Encoding UTF8
Write-Host "The recording is in $Folder. Look through it before you give it away: it holds the texts of your event logs."
