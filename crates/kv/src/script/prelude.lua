-- What a script sees. The host's functions are in `host`; nothing else reaches outside.
--
-- Whatever could differ between members is replaced: addresses, the order of a table's keys, the
-- random numbers, functions whose work no hook can count. Errors are raised here rather than by the
-- host, so that a script that catches one finds Lua's own text.
local host, KEYS, ARGV = ...
local error, type, select, rawget, getmetatable = error, type, select, rawget, getmetatable
local native_pcall, native_xpcall, native_tostring, native_unpack = pcall, xpcall, tostring, unpack
local floor, max, min = math.floor, math.max, math.min
local byte, sub, len, native_rep, native_format = string.byte, string.sub, string.len, string.rep, string.format
local native_find, native_gsub = string.find, string.gsub
local concat, insert, native_next = table.concat, table.insert, next

local function bad(n, name, what, level)
  error("bad argument #" .. n .. " to '" .. name .. "' (" .. what .. ")", (level or 2) + 1)
end

local function text(value, n, name)
  if type(value) == 'number' then return value .. '' end
  if type(value) ~= 'string' then
    bad(n, name, 'string expected, got ' .. (value == nil and 'no value' or type(value)), 3)
  end
  return value
end

local function number(value, n, name)
  if type(value) == 'number' then return value end
  return type(value) == 'string' and tonumber(value)
    or bad(n, name, 'number expected, got ' .. (value == nil and 'no value' or type(value)), 3)
end

-- What a protected call of one of Lua's own functions gave. Its errors name the function as a script
-- does, and the place where the script calls it. An error of a script's own passes as it is.
local function called(name, ok, ...)
  if ok then return ... end
  local problem = ...
  if type(problem) ~= 'string' then error(problem, 0) end
  if sub(problem, 1, 14) == 'bad argument #' then
    problem = native_gsub(problem, "^(bad argument #%d+ to) '%?'", "%1 '" .. name .. "'")
    error(problem, 3)
  end
  local is_own = native_find(problem, '^invalid ') or native_find(problem, '^wrong number of ')
  error(problem, is_own and 3 or 0)
end

-- Errors that cannot be caught: once the steps are spent, each catcher raises again.
local function settle(ok, ...)
  if host.spent() then error(host.spent_text, 0) end
  if not ok and type(...) == 'userdata' then return ok, host.caught((...)) end
  return ok, ...
end

local G = {}
local env = host.guard(G)
G._G = env
G._VERSION = _VERSION
G.KEYS, G.ARGV = KEYS, ARGV
for _, name in ipairs {
  'assert', 'error', 'getmetatable', 'ipairs', 'rawequal', 'rawget', 'rawset', 'select',
  'setmetatable', 'tonumber', 'type',
} do
  G[name] = _G[name]
end

-- As in Redis, who catches an error reply finds its text.
local function worded(ok, ...)
  if not ok and type(...) == 'table' and type((...).err) == 'string' then return ok, (...).err end
  return ok, ...
end
function G.pcall(f, ...) return worded(settle(native_pcall(f, ...))) end
function G.xpcall(f, handler)
  local function handle(e, ...)
    if type(e) == 'userdata' then e = host.caught(e) end
    return handler(e, ...)
  end
  return settle(native_xpcall(f, handle))
end
function G.collectgarbage() return 0 end
function G.gcinfo() return 0, 0 end

function G.tostring(...)
  if select('#', ...) == 0 then bad(1, 'tostring', 'value expected') end
  local value = ...
  local kind = type(value)
  if kind == 'table' or kind == 'function' or kind == 'thread' or kind == 'userdata' then
    if kind ~= 'table' or not host.has_tostring(value) then return kind .. ': 0x000000000000' end
  end
  if kind == 'number' then host.charge(50) end
  return native_tostring(value)
end

function G.unpack(list, first, last)
  if type(list) ~= 'table' then bad(1, 'unpack', 'table expected, got ' .. type(list)) end
  first = first == nil and 1 or number(first, 2, 'unpack')
  last = last == nil and #list or number(last, 3, 'unpack')
  -- Lua gives a function room for 8000 values, its arguments among them.
  if last - first >= 7996 or first < -2 ^ 30 or last > 2 ^ 30 then
    error('too many results to unpack', 2)
  end
  host.charge((last - first + 1) / 8)
  return native_unpack(list, first, last)
end

function G.pairs(t)
  if type(t) ~= 'table' then bad(1, 'pairs', 'table expected, got ' .. (t == nil and 'no value' or type(t))) end
  local keys, problem = host.keys(t)
  if not keys then error(problem, 2) end
  local at = 0
  return function()
    while true do
      at = at + 1
      local key = keys[at]
      if key == nil then return nil end
      local value = rawget(t, key)
      if value ~= nil then return key, value end
    end
  end, t, nil
end

function G.next(t, key)
  if type(t) ~= 'table' then bad(1, 'next', 'table expected, got ' .. (t == nil and 'no value' or type(t))) end
  -- Whether Lua still knows a key that was removed depends on what has taken its place since, and
  -- on addresses, so the order alone answers.
  local found, problem = host.next(t, key)
  if problem then error(problem, 2) end
  if found == nil then return nil end
  return found, rawget(t, found)
end

local function loaded(code, name)
  host.charge(20 * len(code) + len(name))
  local f, problem = host.load(code, name, env)
  if f then return f end
  return nil, problem
end

function G.loadstring(code, name)
  if type(code) ~= 'string' then bad(1, 'loadstring', 'string expected, got ' .. type(code)) end
  return loaded(code, name == nil and code or text(name, 2, 'loadstring'))
end

function G.load(f, name)
  local pieces = {}
  while true do
    local piece = f()
    if piece == nil or piece == '' then break end
    if type(piece) ~= 'string' then return nil, 'reader function must return a string' end
    pieces[#pieces + 1] = piece
  end
  return loaded(concat(pieces), name == nil and '=(load)' or text(name, 2, 'load'))
end

-- Libraries, as tables of their own that a script may change.
local function copy(from, names)
  local to = {}
  for name in names:gmatch '%a[%w_]*' do to[name] = from[name] end
  return to
end

G.coroutine = copy(coroutine, 'create running status wrap yield')
local native_resume = coroutine.resume
function G.coroutine.resume(...) return settle(native_resume(...)) end
function G.coroutine.wrap(f)
  local thread = coroutine.create(f)
  local function out(ok, ...)
    if ok then return ... end
    error((...), 0)
  end
  return function(...) return out(settle(native_resume(thread, ...))) end
end

G.math = copy(math, 'abs ceil deg floor fmod frexp huge ldexp max min mod modf pi rad sqrt')
for name, f in pairs(host.math) do G.math[name] = f end
function G.math.random(...)
  local n = select('#', ...)
  local r = host.random()
  if n == 0 then return r end
  local low, high = 1, ...
  if n == 2 then low, high = ... elseif n > 2 then error('wrong number of arguments', 2) end
  if type(low) ~= 'number' then bad(1, 'random', 'number expected, got ' .. type(low)) end
  if type(high) ~= 'number' then bad(n, 'random', 'number expected, got ' .. type(high)) end
  if low > high then bad(n, 'random', 'interval is empty') end
  return floor(r * (high - low + 1)) + low
end
function G.math.randomseed(seed) host.seed(seed) end

G.table = copy(table, 'getn setn')
function G.table.maxn(t)
  host.charge_for_all(50)
  return called('maxn', native_pcall(table.maxn, t))
end
function G.table.concat(t, separator, first, last)
  if first ~= nil or last ~= nil then
    -- The elements may lie outside of 1 to #t.
    host.charge_for_all(100)
  elseif type(t) == 'table' then
    host.charge(#t * 8)
  end
  local all = called('concat', native_pcall(concat, t, separator, first, last))
  host.charge(len(all) / 16)
  return all
end
function G.table.insert(t, ...)
  if type(t) == 'table' then
    local n = select('#', ...)
    if n == 1 then return insert(t, (...)) end
    local at = n == 2 and tonumber((...)) or 1
    if at ~= at then at = 0 end -- as Lua takes it
    -- Lua would take the last 32 bits of it, and move up to 2^32 elements.
    if at < -2 ^ 31 or at >= 2 ^ 31 then bad(2, 'insert', 'position out of bounds') end
    -- An element below 1 is absent, and its place is made for nothing, which takes longer.
    host.charge(#t / 8 + 4 * max(1 - at, 0))
  end
  return called('insert', native_pcall(insert, t, ...))
end
function G.table.remove(t, ...)
  if (...) ~= nil and type(t) == 'table' then host.charge(#t / 8) end
  return called('remove', native_pcall(table.remove, t, ...))
end
function G.table.sort(t, less)
  if type(t) == 'table' then host.charge_for_all(#t * 40) end
  return called('sort', native_pcall(table.sort, t, less))
end
function G.table.foreach(t, f)
  for key, value in G.pairs(t) do
    local result = f(key, value)
    if result ~= nil then return result end
  end
end
function G.table.foreachi(t, f)
  for at = 1, #t do
    local result = f(at, t[at])
    if result ~= nil then return result end
  end
end

local S = copy(string, 'char len')
G.string = S
function S.rep(s, n)
  if type(s) == 'number' then s = s .. '' end
  if type(s) ~= 'string' then bad(1, 'rep', 'string expected, got ' .. (s == nil and 'no value' or type(s))) end
  n = tonumber(n) or bad(2, 'rep', 'number expected, got ' .. (n == nil and 'no value' or type(n)))
  if s == '' or n < 1 then return '' end
  if len(s) * n > host.string_max then error('not enough memory', 0) end
  host.charge(len(s) * n / 16)
  return native_rep(s, n)
end
function S.format(form, ...)
  form = text(form, 1, 'format')
  if len(form) > 64 then host.charge(len(form) / 2) end
  for at = 1, select('#', ...) do
    local value = select(at, ...)
    host.charge(type(value) == 'string' and len(value) / 16 or 400)
  end
  return called('format', native_pcall(native_format, form, ...))
end

-- Short texts cost little more than the call.
for _, name in ipairs { 'lower', 'reverse', 'upper' } do
  local native = string[name]
  S[name] = function(s)
    s = text(s, 1, name)
    if len(s) > 256 then host.charge(len(s) / 4) end
    return native(s)
  end
end
function S.sub(s, first, last)
  s, first = text(s, 1, 'sub'), number(first, 2, 'sub')
  last = last == nil and -1 or number(last, 3, 'sub')
  if len(s) > 256 then host.charge(len(s) / 4) end
  return sub(s, first, last)
end
function S.byte(s, first, last)
  s = text(s, 1, 'byte')
  first = first == nil and 1 or number(first, 2, 'byte')
  last = last == nil and first or number(last, 3, 'byte')
  local size = len(s)
  if size > 256 then host.charge(size / 4) end
  local from = first < 0 and max(first + size + 1, 1) or first
  local to = last < 0 and last + size + 1 or min(last, size)
  -- The room that Lua gives a function, its arguments among it.
  if to - from >= 7996 then error('stack overflow (string slice too long)', 2) end
  return byte(s, first, last)
end

-- host.seek gives the first and the last position and the captures; nil if there is no match; or
-- false and what is wrong with the pattern.
local function found(first, ...)
  if first == false then error((...), 3) end
  return first, ...
end
local function only_captures(first, last, ...)
  if first == nil then return nil end
  if select('#', ...) == 0 then return first, last end
  return first, last, ...
end
local function start(s, init)
  init = floor(tonumber(init) or 1)
  if init < 0 then init = len(s) + init + 1 end
  if init < 1 then init = 1 end
  if init > len(s) + 1 then init = len(s) + 1 end
  return init
end

function S.find(s, pattern, init, plain)
  s, pattern = text(s, 1, 'find'), text(pattern, 2, 'find')
  return only_captures(found(host.seek(s, pattern, start(s, init), true, plain and true or false)))
end
local function captures(s, first, last, ...)
  if first == nil then return nil end
  if select('#', ...) == 0 then return sub(s, first, last) end
  return ...
end
function S.match(s, pattern, init)
  s, pattern = text(s, 1, 'match'), text(pattern, 2, 'match')
  return captures(s, found(host.seek(s, pattern, start(s, init), true)))
end
function S.gmatch(s, pattern)
  s, pattern = text(s, 1, 'gmatch'), text(pattern, 2, 'gmatch')
  local at = 1
  local function advance(first, last, ...)
    if first == nil then
      at = len(s) + 2
      return nil
    end
    at = last + 1
    if last < first then at = first + 1 end
    return captures(s, first, last, ...)
  end
  return function()
    if at > len(s) + 1 then return nil end
    return advance(found(host.seek(s, pattern, at, false)))
  end
end
S.gfind = S.gmatch

local function replaced(with, whole, ...)
  local kind = type(with)
  local value
  if kind == 'string' then
    local result, problem = host.expand(with, whole, ...)
    if not result then error(problem, 4) end
    return result
  elseif kind == 'table' then
    local first = ...
    if select('#', ...) == 0 then first = whole end
    value = with[first]
  elseif select('#', ...) == 0 then
    value = with(whole)
  else
    value = with(...)
  end
  if not value then return whole end
  if type(value) ~= 'string' and type(value) ~= 'number' then
    error('invalid replacement value (a ' .. type(value) .. ')', 4)
  end
  return value
end

function S.gsub(s, pattern, with, most)
  s, pattern = text(s, 1, 'gsub'), text(pattern, 2, 'gsub')
  local kind = type(with)
  if kind == 'number' then with, kind = with .. '', 'string' end
  if kind ~= 'string' and kind ~= 'table' and kind ~= 'function' then
    bad(3, 'gsub', 'string/function/table expected')
  end
  most = tonumber(most) or len(s) + 1
  local is_anchored = byte(pattern, 1) == 94
  local pieces, n, at, count = {}, 0, 1, 0
  local function put(piece)
    n = n + 1
    pieces[n] = piece
  end
  local function one(first, last, ...)
    if first == nil then return false end
    count = count + 1
    put(sub(s, at, first - 1))
    put(replaced(with, sub(s, first, last), ...))
    if last >= first then
      at = last + 1
    else
      put(sub(s, first, first))
      at = first + 1
    end
    return at <= len(s) + 1
  end
  while count < most do
    if not one(found(host.seek(s, pattern, at, true))) or is_anchored then break end
  end
  put(sub(s, at))
  return concat(pieces), count
end
getmetatable('').__index = S

G.redis = host.redis

-- The body is run under a handler that says where an error was raised.
return env, function(body)
  return native_xpcall(body, host.locate)
end
